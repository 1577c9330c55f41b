"""``kubectl-gpu``, which kubectl runs as ``kubectl gpu``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from driver import log
from driver.cli.main import add_commands, parse_with, run
from driver.cli.parser import Commands, Parser

COMMANDS = ("status", "topology", "explain", "fragmentation")
"""Modules of this package, in the order of ``--help``."""

PROGRAM = "kubectl gpu"
_DESCRIPTION = """\
What GPUs there are, who has them and how they are, what waits and why, how the free
ones lie: for people with a cluster whose GPUs are given out through DRA. It only reads."""

_EPILOG = """\
kubectl finds the program by its name, kubectl-gpu, on the PATH.

examples:
  kubectl gpu status                        what there is, who has it, what is sick
  kubectl gpu topology node-a               how a node's GPUs are linked
  kubectl gpu explain train-0 -n team       why a pod waits, node by node, or what it has
  kubectl gpu fragmentation                 free sets, what fits now, what is in the way

exit codes, the same for every command:
  0    answered
  1    failed; stderr says what, and what to look at next
  2    the command line or the kubeconfig is wrong
  130  interrupted (Ctrl-C)
  141  the reader of the output went away

`kubectl gpu COMMAND --help` has more examples. Next: docs/status.md, docs/explain.md, docs/cli.md."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the answer is the exit code."""
    args = parse(sys.argv[1:] if argv is None else argv)
    log.start(form="text", level="debug" if args.debug else "error")
    return run(args, program=PROGRAM)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, with ``run`` set to the command's function. A wrong command line ends the process with code 2."""
    return parse_with(*build_parser(), argv)


def build_parser() -> tuple[Parser, Commands]:
    """The whole command line, and its commands by name."""
    parser = Parser(prog=PROGRAM, description=_DESCRIPTION, epilog=_EPILOG)
    return parser, add_commands(parser, "driver.cli.gpu", COMMANDS)


if __name__ == "__main__":
    sys.exit(main())
