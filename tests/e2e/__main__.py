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
from tests.e2e import controller_soak, dashboard_soak, load_soak, mig_soak, release, runner, scenarios, soak
from tests.e2e.scenarios import absence
from tests.e2e.stage import Stage

NODE_PODS = 500
CONTROLLER_PODS = 2000
MIG_STEPS = 500


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """The options of ``e2e.sh``."""
    parser = argparse.ArgumentParser(prog="e2e.sh", description="The driver on a real kubelet, scheduler and containerd.")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="scenarios whose name contains TEXT")
    parser.add_argument(
        "--soak",
        nargs="?",
        const="all",
        choices=["node", "mig", "controller", "load", "absence", "dashboard", "all"],
        help="the long counts instead; writes docs/reports/<date>-e2e-soak.md, -e2e-mig-soak.md, "
        "-e2e-controller-soak.md, -e2e-load.md, -e2e-absence.md, "
        "-e2e-dashboard.md (this one needs Prometheus, and is not among all)",
    )
    parser.add_argument(
        "--pods",
        type=int,
        metavar="N",
        help="how many pods a soak creates (default: node 500, controller 2,000), or how many steps of each kind that of MIG "
        "takes (500)",
    )
    parser.add_argument(
        "--tries",
        type=int,
        default=1,
        metavar="N",
        help="begin a scenario that fails again, up to N runs of it; one that passes then is told of as unsteady (CI: 2)",
    )
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
    needs_image = not arguments.soak and any(each.needs_image for each in chosen)
    build.install_packages(_say, for_images=needs_image)
    build.build_binaries(layout, _say)
    if needs_image:
        _say("building the image")
        release.build_image(layout)
    lock = take_machine(layout)
    began = time.monotonic()
    dumps = Path(tempfile.gettempdir()) / "gpu-dra-e2e"
    try:
        cluster.bring_up(layout, _say)
        stage = runner.make_stage(layout)
        stage.clear()
        if arguments.soak:
            failed = _soak(stage, arguments, dumps)
        else:
            failed = runner.run_scenarios(stage, chosen, dumps, tries=arguments.tries)
        _say(f"{time.monotonic() - began:.0f} s on Kubernetes {layout.kube_version}")
        return 1 if failed else 0
    finally:
        if not arguments.keep:
            cluster.bring_down(layout, _say)
        os.close(lock)


def _soak(stage: Stage, arguments: argparse.Namespace, dumps: Path) -> int:
    seed = int(time.time())
    half, pods = arguments.soak, arguments.pods
    _say(f"a soak of {pods or 'the usual number of'} pods, seed {seed}")

    def run_node(stage: Stage) -> str:
        return str(soak.write_report(soak.run_soak(stage, pods or NODE_PODS, seed)))

    def run_mig(stage: Stage) -> str:
        return str(soak.write_report(mig_soak.run_mig_soak(stage, pods or MIG_STEPS, seed, _say), "e2e-mig-soak"))

    def run_controller(stage: Stage) -> str:
        text = controller_soak.run_controller_soak(stage, pods or CONTROLLER_PODS, seed)
        return str(soak.write_report(text, "e2e-controller-soak"))

    def run_load(stage: Stage) -> str:
        return str(soak.write_report(load_soak.run_load_soak(stage, seed), "e2e-load"))

    def run_absence(stage: Stage) -> str:
        seen = absence.run_absence(stage, absent_s=absence.AN_HOUR_S)
        return str(soak.write_report(absence.build_report(seen, stage.layout.kube_version), "e2e-absence"))

    def run_dashboard(stage: Stage) -> str:
        folder = Path(tempfile.mkdtemp(prefix="gpu-dra-dashboard-"))
        seen = dashboard_soak.run_dashboard(stage, folder)
        text = dashboard_soak.build_report(seen, stage.layout.kube_version)
        return f"{soak.write_report(text, 'e2e-dashboard')}; pages and pictures in {folder}"

    runs = {"node": run_node, "mig": run_mig, "controller": run_controller, "load": run_load, "absence": run_absence}
    if half == "dashboard":
        runs = {"dashboard": run_dashboard}
    chosen = [runner.Scenario(name=f"soak of the {name}", run=run) for name, run in runs.items() if half in {name, "all"}]
    return runner.run_scenarios(stage, chosen, dumps)


def take_machine(layout: Layout) -> int:
    """One run at a time of a cluster, whose ports it takes; held until the descriptor closes.

    Two clusters need a home and a network each: ``unshare --net``, then ``ip link set lo up`` and another DEVCLUSTER_HOME.
    """
    layout.cache.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(layout.cache / f"{layout.home.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
    except (DevclusterError, release.ReleaseFailed) as err:
        _say(str(err))
        sys.exit(1)
