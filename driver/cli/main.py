"""``gpu-dra``: picks the command, and turns an error into one clear text and a stable exit code.

A command is a module with ``add_parser(subparsers)`` and ``run(args) -> int``. Its imports at the top are light; what is heavy
(gRPC, rich, YAML) it imports in ``run``, so that ``gpu-dra --help`` is quick and the daemons stay small.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from driver import log
from driver.cli.parser import Commands, Parser
from driver.config.load import encode_own_settings
from driver.errors import ApiUnreachable, DriverError, Fatal, NvmlError

COMMANDS = ("kubelet_plugin", "controller", "inspect", "record", "match", "simulate", "demo")
"""Modules of this package, in the order of ``--help``."""

EXIT_FAILURE = 1
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141

_DESCRIPTION = """\
gpu-dra gives the NVIDIA GPUs of a Kubernetes node to pods through DRA (Dynamic
Resource Allocation): it publishes what the node has, with the links between the
GPUs, and prepares claimed GPUs for containers. Everything also runs on mock
machines, without a GPU."""

_EPILOG = """\
examples:
  gpu-dra demo                              see it work, here, with nothing installed
  gpu-dra inspect                           this machine, as the driver sees it
  gpu-dra inspect --nvml mock:dgx-h100      a mock machine
  gpu-dra kubelet-plugin --node-name node-a serve the kubelet of this node
  gpu-dra controller                        allocate fenced devices, cluster-wide

exit codes, the same for every command:
  0    done
  1    failed; stderr says what, and what to look at next
  2    the command line, the environment, the config file or a machine file is wrong
  3    another driver of the same name publishes this node's devices
  4    the controller lost its lease; start it again, it stands by
  130  interrupted (Ctrl-C)
  141  the reader of the output went away

`gpu-dra COMMAND --help` tells what a command does and which settings it takes.
Next: docs/cli.md, docs/mock-machines.md, README.md."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the answer is the exit code."""
    args = parse(sys.argv[1:] if argv is None else argv)
    # What people see is the command's own output; a daemon starts its log anew as its settings say.
    log.start(form="text", level="debug" if args.debug else "error")
    return run(args)


def run(args: argparse.Namespace, *, program: str = "gpu-dra") -> int:
    """Run the command that was parsed, and turn how it ends into an exit code."""
    try:
        code = _print_settings(args) if getattr(args, "print_settings", False) else int(args.run(args))
        sys.stdout.flush()
    except DriverError as err:
        return _end(err, program, is_debug=args.debug)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Python would fail again when it flushes stdout at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE_CLOSED
    return code


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, with ``run`` set to the command's function. A wrong command line ends the process with code 2."""
    return parse_with(*build_parser(), argv)


def parse_with(parser: Parser, commands: Commands, argv: Sequence[str]) -> argparse.Namespace:
    """``parse``, for any program of ours."""
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        command = commands.choices[args.command]
        command.error(f"{unknown[0][:80]!r} is no argument of this command{_find_hint(unknown[0], command, commands)}")
    return args


def _find_hint(word: str, command: Parser, commands: Commands) -> str:
    """A flag of another command is not misspelt."""
    owners = [name for name, each in commands.choices.items() if each.has_flag(word)]
    if owners:
        return f", but of {' and '.join(owners)}"
    near = command.nearest_flag(word)
    return f"; did you mean {near}?" if near else ""


def build_parser() -> tuple[Parser, Commands]:
    """The whole command line, and its commands by name."""
    parser = Parser(prog="gpu-dra", description=_DESCRIPTION, epilog=_EPILOG)
    return parser, add_commands(parser, "driver.cli", COMMANDS)


def add_commands(parser: Parser, package: str, names: Sequence[str]) -> Commands:
    """Give a program its commands, which are modules of a package, and what every program of ours takes."""
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version, and end")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True, parser_class=Parser)
    for name in names:
        module = importlib.import_module(f"{package}.{name}")
        module.add_parser(commands)
        command = commands.choices[name.replace("_", "-")]
        command.add_argument("--debug", action="store_true", help="show where in the program an error comes from")
        command.set_defaults(run=module.run)
    return commands


class _Version(argparse.Action):
    """Reads the version only when asked: the look-up of package metadata is slow."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib import metadata  # noqa: PLC0415

        print(f"gpu-dra {metadata.version('gpu-dra')}")
        parser.exit(0)


def _print_settings(args: argparse.Namespace) -> int:
    print(encode_own_settings(args, os.environ), end="")
    return 0


def _end(err: DriverError, program: str, *, is_debug: bool) -> int:
    if is_debug:
        traceback.print_exception(err)
    print(f"{program}: error: {err}{_find_way_on(err)}", file=sys.stderr)
    return err.exit_code if isinstance(err, Fatal) else EXIT_FAILURE


def _find_way_on(err: DriverError) -> str:
    if isinstance(err, ApiUnreachable):
        text = "s it the cluster that you mean? (kubectl config current-context)"
        return f" I{text}" if str(err).endswith("?") else f"; i{text}"
    if not isinstance(err, NvmlError):
        return ""
    where = (
        " libnvidia-ml.so.1 is looked for below --driver-root, or is --nvml-library." if err.name == "LIBRARY_NOT_FOUND" else ""
    )
    return f"; is the NVIDIA driver loaded?{where} A mock needs none: --nvml mock:dgx-h100"


if __name__ == "__main__":
    sys.exit(main())
