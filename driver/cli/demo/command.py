"""``gpu-dra demo``: a claim's way from a machine to a container's devices, here and now, with nothing installed."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from driver.cli.parser import Commands

if TYPE_CHECKING:
    from collections.abc import Iterator

    from driver.cli.demo.story import Step

FORMAT = "gpu-dra.io/demo/v1"
_LONGEST_PARENT = 40

_DESCRIPTION = """\
Show the main job on a mock machine, with nothing installed: the real plugin
registers over a real unix socket, publishes the machine's GPUs, and prepares a
claim as the kubelet asks it to; you see what the container gets. Small stand-ins
inside this program play the API server, the kubelet and kube-scheduler. It ends
by itself within seconds, needs no root and no network, and leaves nothing behind."""

_EPILOG = """\
examples:
  gpu-dra demo
  gpu-dra demo --machine dgx-1v                where pairs and quads are not neighbours
  gpu-dra demo --machine ./my-machine.yaml     a machine of your own (gpu-dra record)
  gpu-dra demo -o json | jq '.steps[].name'

exit codes: 0 every step came out right; 1 one did not (--debug shows the
plugin's log); 2 wrong command line or machine.
Next: gpu-dra inspect, docs/mock-machines.md, and `make e2e` for a real node."""

_NEXT = (
    ("gpu-dra demo --machine dgx-1v", "a cube mesh"),
    ("gpu-dra inspect --nvml mock:{machine}", "links, sets, MIG"),
    ("gpu-dra record > my-machine.yaml", "your GPUs as a mock"),
    ("make e2e", "a real one-node cluster"),
)


def add_parser(commands: Commands) -> None:
    """The command's flags and help."""
    parser = commands.add_parser(
        "demo", help="see a claim's way from a mock machine to a container", description=_DESCRIPTION, epilog=_EPILOG
    )
    parser.add_argument(
        "--machine", metavar="NAME_OR_FILE", default="dgx-h100", help="the mock machine to play (default: dgx-h100)"
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="a story, or one JSON object (default: text)"
    )


def run(args: argparse.Namespace) -> int:
    """Tell the whole story.

    Raises:
        MachineInvalid: there is no such machine.
        DemoFailed: a step did not come out right.
    """
    begun = time.monotonic()
    if args.output == "json":
        _print_json(args.machine, list(_tell(args.machine)))
        return 0
    from driver.cli.demo.show import show_end, show_step  # noqa: PLC0415
    from driver.cli.tables import open_console  # noqa: PLC0415

    console = open_console()
    for step in _tell(args.machine):
        show_step(console, step)
    show_end(console, time.monotonic() - begun, tuple((command.format(machine=args.machine), why) for command, why in _NEXT))
    return 0


def _tell(machine: str) -> Iterator[Step]:
    from driver.cli.demo.story import tell  # noqa: PLC0415
    from driver.cli.demo.world import World  # noqa: PLC0415

    # Sockets have paths of at most 107 bytes, and some temporary folders have long ones (macOS, CI).
    parent = tempfile.gettempdir() if len(tempfile.gettempdir()) <= _LONGEST_PARENT else "/tmp"  # noqa: S108
    with tempfile.TemporaryDirectory(prefix="gpu-dra-demo-", dir=parent) as folder, World(machine, Path(folder)) as world:
        yield from tell(world, machine)


def _print_json(machine: str, steps: list[Step]) -> None:
    import json  # noqa: PLC0415

    told = [
        {"step": step.number, "name": step.name, "title": step.title, "tookMs": step.took_ms, **step.facts} for step in steps
    ]
    json.dump({"format": FORMAT, "machine": machine, "steps": told}, sys.stdout, indent=2)
    print()
