"""``gpu-dra simulate``: the allocator on a fleet and a list of arrivals, without a cluster."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from driver.cli.parser import Commands, Parser
from driver.errors import SettingsInvalid

if TYPE_CHECKING:
    from driver.api.resource_v1 import Device
    from driver.cli.simulation.arrivals import Arrivals
    from driver.cli.simulation.replay import Replay
    from driver.cli.simulation.report import Report

_POLICIES = ("pack", "spread", "first-fit", "random")
_MOST_NODES = 20_000

_DESCRIPTION = """\
Play a list of pods against a fleet, with the allocator that the controller uses
or with ways to choose that it is compared with, and tell who waited how long.
Pods wait in order of arrival, with back-fill, and leave when their time is up.
No cluster, no GPU: time is the list's own and passes as fast as it can."""

_EPILOG = """\
arrivals:
  *.csv   the openb form (Alibaba's GPU trace of 2023): name, num_gpu, gpu_milli,
          creation_time, deletion_time. Without times pods come one after the
          other and stay. Pods that ask for no whole GPU are left out.
  *.yaml  our own: pods: [{count: 4, atSeconds: 0, runSeconds: 3600, times: 10,
          everySeconds: 60, scope: nvlink, mode: required}]; docs/simulate.md

policies:
  pack       the gpu-dra controller
  spread     the emptiest node, there the first devices: kube-scheduler's default
  first-fit  the first node with room, there the first devices
  random     any node with room (--seed), there the first devices

examples:
  gpu-dra simulate --nodes 5 --arrivals tests/data/openb/pods_window.csv
  gpu-dra simulate --nodes 6 --machine dgx-h100 --arrivals pods.csv --policy spread -o json
  gpu-dra simulate --nodes 5 --machine hgx-a100-4x2 --arrivals pods.yaml --picture out.svg

exit codes: 0 played to the end, also when pods were never placed (they are
counted, with the nearest miss: why); 2 wrong command line, list or machine.
Next: docs/simulate.md has figures, docs/allocation.md what the allocator prefers."""


def add_parser(commands: Commands) -> None:
    """The command's flags and help."""
    parser = commands.add_parser(
        "simulate", help="play a list of pods against a fleet, no cluster needed", description=_DESCRIPTION, epilog=_EPILOG
    )
    parser.add_argument("--arrivals", metavar="FILE", required=True, help="the pods: CSV of the openb form, or YAML")
    parser.add_argument(
        "--nodes", metavar="COUNT_OR_FILE", required=True, help="how many nodes, or a CSV list of nodes (sn, gpu, model)"
    )
    parser.add_argument(
        "--machine", metavar="NAME_OR_FILE", default="dgx-h100", help="what each node is: a mock machine (default: dgx-h100)"
    )
    parser.add_argument("--policy", choices=_POLICIES, default="pack", help="who chooses (default: pack)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="for --policy random (default: 0)")
    parser.add_argument("--no-departures", action="store_true", help="pods stay for ever")
    _add_rule(parser)
    parser.add_argument("--picture", metavar="FILE", help="write occupancy and waits over time to FILE, as SVG")
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="form of the output (default: table)"
    )


def _add_rule(parser: Parser) -> None:
    group = parser.add_argument_group("the hold rule, for --policy pack (docs/simulate.md)")
    for flag, default, text in (
        (
            "--hold-after",
            None,
            "a pod for several GPUs that waits longer holds the node where it fits soonest (default: never)",
        ),
        ("--hold-patience", 3600.0, "so long smaller pods keep off that node, each by its own wait (default: 3600)"),
        ("--spare-patience", 0.0, "so long a single waits before it breaks one of the last whole sets (default: 0)"),
    ):
        group.add_argument(flag, type=_seconds, metavar="SECONDS", default=default, help=text)
    group.add_argument(
        "--spare-sets",
        type=_sets,
        metavar="N",
        default=1,
        help="how many whole sets of the largest size are the last (default: 1)",
    )


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is no time; say seconds, such as 0, 1.5 or 3600")
    return number


def _sets(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_NODES:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is no number of sets; say 1 to {_MOST_NODES}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Play the list, and print what came of it.

    Raises:
        SettingsInvalid: the list of pods or nodes is wrong, or the picture cannot be written.
        MachineInvalid: there is no such machine.
    """
    from driver.cli.simulation.arrivals import read_arrivals, without_departures  # noqa: PLC0415  (with them comes msgspec)
    from driver.cli.simulation.fleets import check_attribute  # noqa: PLC0415
    from driver.cli.simulation.picture import draw_picture  # noqa: PLC0415

    arrivals = read_arrivals(Path(args.arrivals))
    if args.no_departures:
        arrivals = without_departures(arrivals)
    nodes = _read_fleet(args)
    for attribute in {pod.match_attribute for pod in arrivals.pods}:
        check_attribute(attribute, nodes, f"--arrivals {args.arrivals}: matchAttribute")
    report, replay = _play(args, arrivals, nodes)
    if args.picture:
        title = f"{report.nodes} nodes, {report.gpus} GPUs, policy {report.policy}: {Path(args.arrivals).name}"
        _write(Path(args.picture), draw_picture(replay.samples, gpus=report.gpus, title=title))
    _show(report, args.output)
    return 0


def _read_fleet(args: argparse.Namespace) -> Sequence[tuple[str, tuple[Device, ...]]]:
    from driver.cli.simulation.fleets import name_nodes, read_machine_devices, read_nodes  # noqa: PLC0415

    if not args.nodes.isdecimal():
        return read_nodes(Path(args.nodes))
    count = int(args.nodes)
    if not 1 <= count <= _MOST_NODES:
        raise SettingsInvalid(f"--nodes {count}: 1 to {_MOST_NODES} nodes can be simulated")
    return name_nodes(count, read_machine_devices(args.machine))


def _play(
    args: argparse.Namespace, arrivals: Arrivals, nodes: Sequence[tuple[str, tuple[Device, ...]]]
) -> tuple[Report, Replay]:
    from driver.allocator.cel_engine import CelEngine  # noqa: PLC0415
    from driver.allocator.hold import HoldRule  # noqa: PLC0415
    from driver.cli.simulation.choosers import build_chooser  # noqa: PLC0415
    from driver.cli.simulation.fleets import build_fleet  # noqa: PLC0415
    from driver.cli.simulation.never import build_never_placed  # noqa: PLC0415
    from driver.cli.simulation.replay import Replay  # noqa: PLC0415
    from driver.cli.simulation.report import Setting, build_report  # noqa: PLC0415

    rule = None
    if args.hold_after is not None or args.spare_patience:
        if args.policy != "pack":
            raise SettingsInvalid(
                f"--hold-after and --spare-patience are for --policy pack; leave them away with {args.policy}"
            )
        rule = HoldRule(
            after_s=math.inf if args.hold_after is None else args.hold_after,
            hold_patience_s=args.hold_patience,
            spare_patience_s=args.spare_patience,
            spare_sets=args.spare_sets,
        )
    fleet = build_fleet(nodes, CelEngine())
    chooser = build_chooser(args.policy, fleet, seed=args.seed, rule=rule)
    replay = Replay(chooser)
    with _watched(len(arrivals.pods)) as progress:
        replay.run(arrivals.pods, progress)
    setting = Setting(
        nodes=len(nodes),
        gpus=sum(len(devices) for _, devices in nodes),
        machine=args.machine if args.nodes.isdecimal() else Path(args.nodes).name,
        policy=args.policy,
        arrivals=Path(args.arrivals).name,
        skipped_pods=arrivals.skipped,
    )
    never = build_never_placed(replay.waiting, lambda pod: id(chooser.problem_of(pod)), chooser.explain)
    return build_report(setting, replay.runs, replay.samples, chooser.count_links(), never), replay


@contextlib.contextmanager
def _watched(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr where a person watches, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _arrived: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("pods", total=total)
        yield lambda arrived: bar.update(task, completed=arrived)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as err:
        raise SettingsInvalid(
            f"--picture {path}: cannot be written: {err.strerror}; name a file in a folder that is there"
        ) from err


def _show(report: Report, form: str) -> None:
    if form == "json":
        from driver.cli.view import encode_json  # noqa: PLC0415

        print(encode_json(report))
        return
    from driver.cli.simulation.show import build_tables  # noqa: PLC0415
    from driver.cli.tables import open_console  # noqa: PLC0415

    open_console().print(build_tables(report))
