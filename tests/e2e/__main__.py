"""``hack/devcluster/e2e.sh``: the node is built, started, tried and stopped."""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

from hack.devcluster import build, cluster
from hack.devcluster.layout import DevclusterError, Layout, read_layout
from tests.e2e import runner, scenarios, soak
from tests.e2e.stage import Stage


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """The options of ``e2e.sh``."""
    parser = argparse.ArgumentParser(prog="e2e.sh", description="The driver on a real kubelet, scheduler and containerd.")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="scenarios whose name contains TEXT")
    parser.add_argument("--soak", action="store_true", help="the long counts instead; writes docs/reports/<date>-e2e-soak.md")
    parser.add_argument("--pods", type=int, default=500, metavar="N", help="how many pods a soak creates (default 500)")
    parser.add_argument("--keep", action="store_true", help="leave the node running afterwards")
    parser.add_argument("--list", action="store_true", help="print the scenarios' names, and run none")
    return parser.parse_args(argv)


def run(arguments: argparse.Namespace) -> int:
    """Build, start, try, stop; the exit status."""
    chosen = [each for each in scenarios.ALL if not arguments.only or any(text in each.name for text in arguments.only)]
    if arguments.list or not chosen:
        sys.stdout.writelines(f"{each.name}\n" for each in scenarios.ALL)
        return 0 if arguments.list else 2
    layout = read_layout()
    build.install_packages(_say)
    build.build_binaries(layout, _say)
    lock = take_machine(layout)
    began = time.monotonic()
    dumps = Path(tempfile.gettempdir()) / "gpu-dra-e2e"
    try:
        cluster.bring_up(layout, _say)
        stage = runner.make_stage(layout)
        stage.clear()
        failed = _soak(stage, arguments.pods, dumps) if arguments.soak else runner.run_scenarios(stage, chosen, dumps)
        _say(f"{time.monotonic() - began:.0f} s on Kubernetes {layout.kube_version}")
        return 1 if failed else 0
    finally:
        if not arguments.keep:
            cluster.bring_down(layout, _say)
        os.close(lock)


def _soak(stage: Stage, pods: int, dumps: Path) -> int:
    seed = int(time.time())
    _say(f"a soak of {pods} pods, seed {seed}")
    scenario = runner.Scenario(name="soak", run=lambda stage: str(soak.write_report(soak.run_soak(stage, pods, seed))))
    return runner.run_scenarios(stage, [scenario], dumps)


def take_machine(layout: Layout) -> int:
    """One run at a time on a machine, whose ports and cgroups the node takes; held until the descriptor closes."""
    layout.cache.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(layout.cache / "e2e.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _say("another run has the machine; waiting for it")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _say(text: str) -> None:
    sys.stderr.write(f"e2e: {text}\n")
    sys.stderr.flush()


def _end(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(143)  # so that the node is stopped on the way out


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    try:
        sys.exit(run(parse_arguments(sys.argv[1:])))
    except DevclusterError as err:
        _say(str(err))
        sys.exit(1)
