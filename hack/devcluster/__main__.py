"""The commands of the dev cluster; ``hack/devcluster/devcluster --help`` lists them."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

from hack.devcluster import build, cluster, images, modules
from hack.devcluster.layout import DevclusterError, Layout, read_layout, read_started

_EPILOG = """environment:
  KUBE_VERSION          1.37.2 (default), 1.36.3 or 1.34.4
  DEVCLUSTER_HOME       state of the running cluster; default /run/gpu-dra-dev
  DEVCLUSTER_CACHE      binaries; default ~/.cache/gpu-dra-devcluster
  DEVCLUSTER_NODE       the node's name; default node-a
  DEVCLUSTER_API_PORT   default 6443
  DEVCLUSTER_ETCD_PORT  default 2379; the next port is used too
"""


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """The command and its options."""
    parser = argparse.ArgumentParser(
        prog="devcluster",
        description="A real one-node Kubernetes cluster on this machine.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("build", help="build the binaries, install what they need; what is there is kept")
    up = commands.add_parser("up", help="start the cluster and wait until the node is Ready")
    up.add_argument("--mock-nodes", type=int, default=0, metavar="N", help="also N nodes without a kubelet: mock-1, ...")
    commands.add_parser("down", help="stop everything and remove all state")
    status = commands.add_parser("status", help="what runs; exit status 1 when not all of it does")
    status.add_argument("-o", dest="form", choices=("text", "env", "json"), default="text", help="env: for eval in a shell")
    logs = commands.add_parser("logs", help="print the end of a component's log")
    logs.add_argument("name")
    logs.add_argument("-n", type=int, default=100, dest="lines", help="how many lines (default 100)")
    load = commands.add_parser("load", help="bring images (OCI or Docker archives) into the node")
    load.add_argument("archive", nargs="+", type=Path)
    nodes = commands.add_parser("mock-nodes", help="make these the mock nodes of the cluster; others go")
    nodes.add_argument("name", nargs="*")
    for verb in ("start", "stop", "restart"):
        commands.add_parser(verb, help=f"{verb} one component; pods keep running").add_argument("name")
    module = commands.add_parser("module", help="(developers) write the module files of another Kubernetes version")
    module.add_argument("version")
    return parser.parse_args(argv)


def run_command(arguments: argparse.Namespace) -> int:
    """Do what was asked; return the exit status."""
    if arguments.command == "module":
        modules.write_module(arguments.version, _say)
        return 0
    layout = read_layout()
    if arguments.command in {"build", "up", "down"}:
        return _run_life_cycle(arguments, layout)
    started = read_started(layout)
    if started is None:
        raise DevclusterError(f"no cluster in {layout.home}; start one with: hack/devcluster/devcluster up")
    match arguments.command:
        case "status":
            return _print_status(started, arguments.form)
        case "logs":
            _print_log(started, arguments.name, arguments.lines)
        case "load":
            for archive in arguments.archive:
                sys.stdout.write(images.load_image(started, archive))
        case "mock-nodes":
            cluster.write_mock_nodes(started, arguments.name)
        case verb:
            _change_component(started, verb, arguments.name)
    return 0


def _run_life_cycle(arguments: argparse.Namespace, layout: Layout) -> int:
    match arguments.command:
        case "build":
            build.install_packages(_say)
            build.build_binaries(layout, _say)
        case "up":
            cluster.bring_up(layout, _say)
            if arguments.mock_nodes:
                cluster.write_mock_nodes(layout, [f"mock-{number}" for number in range(1, arguments.mock_nodes + 1)])
        case _:
            cluster.bring_down(layout, _say)
    return 0


def _change_component(layout: Layout, verb: str, name: str) -> None:
    if verb in {"stop", "restart"}:
        cluster.stop_component(layout, name)
    if verb in {"start", "restart"}:
        cluster.start_component(layout, name)
        cluster.wait_for_component(layout, name)


def _print_status(layout: Layout, form: str) -> int:
    running = cluster.read_running(layout)
    is_ready = None not in running.values() and cluster.is_node_ready(layout)
    match form:
        case "env":
            lines = [f"export {key}={shlex.quote(value)}" for key, value in layout.environment().items()]
        case "json":
            lines = [json.dumps({"ready": is_ready, "components": running, "environment": layout.environment()}, indent=1)]
        case _:
            lines = [f"{name:12} {f'pid {pid}' if pid else 'not running'}" for name, pid in running.items()]
            lines += [f"node {layout.node}  {'Ready' if is_ready else 'not Ready'}", f"KUBECONFIG={layout.admin_kubeconfig}"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if is_ready else 1


def _print_log(layout: Layout, name: str, lines: int) -> None:
    path = layout.logs / f"{name}.log"
    if not path.exists():
        known = sorted(log.stem for log in layout.logs.glob("*.log"))
        raise DevclusterError(f"no log of {name!r}; there are {', '.join(known)}")
    sys.stdout.write("\n".join(path.read_text(errors="replace").splitlines()[-lines:]) + "\n")


def _say(text: str) -> None:
    sys.stderr.write(f"devcluster: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    try:
        sys.exit(run_command(parse_arguments(sys.argv[1:])))
    except DevclusterError as err:
        _say(str(err))
        sys.exit(1)
