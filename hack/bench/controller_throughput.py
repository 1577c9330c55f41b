"""Claims a second on a real API server: ``python -m hack.bench.controller_throughput``, as root.

The controller has as many fenced nodes as kube-scheduler has others, and both get the same pods and claims, by turns. One JSON
line for each way of measuring and each of kube-scheduler's request rates. ``stream``: from the first pod created until the last
claim is seen allocated, while pods are created as quickly as a client can. ``backlog``: all pods are there before either may
begin, and it counts from then. A ratio is the median of those of the turns.

Beside it: from decided to bound, and what the controller says of its decisions. The binaries are the dev cluster's. Two such
clusters at a time need a network each:
``unshare --net sh -c 'ip link set lo up; DEVCLUSTER_HOME=/run/bench python -m hack.bench.controller_throughput'``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driver.controller.objects.model import CLAIMS, PODS
from driver.kube.changes import Change
from driver.kube.client import KubeClient
from driver.kube.kubeconfig import read_kubeconfig
from driver.kube.resources import Selection
from driver.kube.watch import Watcher
from hack.bench.control_plane import CREATORS, ControlPlane, run_control_plane
from hack.bench.figure import percentile, round_digits
from hack.bench.processes import BenchFailed
from hack.devcluster.layout import DevclusterError, Layout, read_layout
from hack.devcluster.processes import wait_until
from tests.e2e import objects
from tests.e2e.kube import ApiRefused, Json
from tests.e2e.objects import NAMESPACE

MACHINE = "dgx-h100"
LARGE_EVERY = 10
"""Each tenth claim is for four GPUs, the others for one."""
TARGET_RATIO = 3.0
_GIVE_UP_S = 300.0
_SIDES = {"controller": "controller", "scheduler": "scheduler"}
"""Which devices each side's claims select, by the attribute ``allocator``."""


def build_work(prefix: str, side: str, count: int) -> tuple[list[Json], list[Json]]:
    """Claims and the pods that name them, one each, of this name."""
    selector = f'device.attributes["{objects.DRIVER}"].allocator == "{_SIDES[side]}"'
    claims, pods = [], []
    for number in range(count):
        name = f"{prefix}-{number}"
        size = 4 if number % LARGE_EVERY == LARGE_EVERY - 1 else 1
        claims.append(objects.claim(name, objects.claim_spec([objects.exactly(count=size, selector=selector)])))
        pods.append(objects.pod_with(name, {"gpus": {"resourceClaimName": name}}, cpu="1"))
    return claims, pods


@dataclass(slots=True)
class Sights:
    """When claims were seen allocated, and pods bound, by name: two watches of their own."""

    allocated: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def watching(self, kubeconfig: Path) -> Iterator[None]:
        """Until the end of ``with``."""
        client = KubeClient(read_kubeconfig([kubeconfig], context="", environ=os.environ))
        selection = Selection(namespace=NAMESPACE)
        watchers: list[Watcher[Any]] = [Watcher(client, CLAIMS, selection), Watcher(client, PODS, selection)]
        notes = (self._note_claim, self._note_pod)
        threads = [threading.Thread(target=_follow, args=each, daemon=True) for each in zip(watchers, notes, strict=True)]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            for watcher in watchers:
                watcher.stop()
            for thread in threads:
                thread.join()

    def _note_claim(self, claim: Any) -> None:
        if claim.status.allocation is not None:
            self.allocated.setdefault(claim.metadata.name, time.monotonic())

    def _note_pod(self, pod: Any) -> None:
        if pod.spec.node_name:
            self.bound.setdefault(pod.metadata.name, time.monotonic())


def _follow(watcher: Watcher[Any], note: Any) -> None:
    for seen in watcher.changes():
        if isinstance(seen, Change):
            note(seen.item)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One side's turn: claims a second until the last was allocated, and until the last pod was bound; times of each claim."""

    rate: float
    bound_rate: float
    to_allocated_s: tuple[float, ...]
    to_bound_s: tuple[float, ...]
    """From the moment that the claim was seen allocated."""
    cpu_s: Mapping[str, float]
    """By process, until the last pod was bound."""
    created_s: float
    """How long the clients took to create everything; in a stream nobody can be quicker than they."""


def run_round(plane: ControlPlane, sights: Sights, prefix: str, side: str, count: int, *, is_backlog: bool) -> Round:
    """Create a side's claims and pods, wait until all are bound, and remove them.

    Raises:
        BenchFailed: not all are bound in the end.
    """
    claims, pods = build_work(prefix, side, count)
    names = [each["metadata"]["name"] for each in pods]
    pairs = [each for pair in zip(claims, pods, strict=True) for each in pair]
    cpu_s = plane.read_cpu_s()
    creating = begun = time.monotonic()
    if is_backlog:
        with plane.held():
            plane.create_all(pairs)
            begun = time.monotonic()
    else:
        plane.create_all(pairs)
    created_s = time.monotonic() - creating

    def is_over() -> bool:
        return not plane.controller.is_running() or all(name in sights.bound for name in names)

    wait_until(is_over, timeout_s=_GIVE_UP_S, interval_s=0.05)
    missing = [name for name in names if name not in sights.bound]
    if missing:
        raise BenchFailed(f"{len(missing)} pods of {side} are not bound: {missing[:5]}; see {plane.layout.logs}")
    allocated = [sights.allocated[name] for name in names]
    done = Round(
        rate=count / (max(allocated) - begun),
        bound_rate=count / (max(sights.bound[name] for name in names) - begun),
        to_allocated_s=tuple(each - begun for each in allocated),
        to_bound_s=tuple(max(0.0, sights.bound[name] - sights.allocated[name]) for name in names),
        cpu_s={name: each - cpu_s[name] for name, each in plane.read_cpu_s().items()},
        created_s=created_s,
    )
    clear(plane)
    return done


def clear(plane: ControlPlane) -> None:
    """No pods and no claims; kube-controller-manager frees the claims."""
    api = plane.api
    for kind in ("Pod", "ResourceClaim"):
        try:
            api.request("DELETE", api.path(kind, NAMESPACE) + "?gracePeriodSeconds=0")
        except ApiRefused as err:
            if err.status:  # else it only takes longer than a client waits
                raise
    for kind in ("Pod", "ResourceClaim"):
        if not wait_until(lambda kind=kind: not api.find(kind, NAMESPACE, query="limit=1"), timeout_s=_GIVE_UP_S):  # type: ignore[misc]
            raise BenchFailed(f"{kind}s do not go; see {plane.layout.logs}")


def build_line(measure: str, qps: float | None, rounds: Mapping[str, Sequence[Round]]) -> dict[str, Any]:
    """One way of measuring as a line."""
    ours, theirs = rounds["controller"], rounds["scheduler"]
    ratios = [each.rate / other.rate for each, other in zip(ours, theirs, strict=True)]
    ratio = percentile(ratios, 0.5)
    line: dict[str, Any] = {
        "figure": "controller-throughput",
        "measure": measure,
        "scheduler_qps": "its default, 50" if qps is None else qps,
        "ratio": ratio,
        "ratios": [round_digits(each) for each in ratios],
        "target": f"ratio >= {TARGET_RATIO:g}",
        "met": ratio >= TARGET_RATIO,
    }
    for side, each in rounds.items():
        line[f"{side}_claims_per_s"] = percentile([turn.rate for turn in each], 0.5)
        line[f"{side}_pods_bound_per_s"] = percentile([turn.bound_rate for turn in each], 0.5)
        line[f"{side}_created_s"] = percentile([turn.created_s for turn in each], 0.5)
        line[f"{side}_cpu_ms_a_claim"] = _sum_cpu_ms(each)
    allocated = [value for turn in ours for value in turn.to_bound_s]
    line |= {"allocated_to_bound_s_p50": percentile(allocated, 0.5), "allocated_to_bound_s_p95": percentile(allocated, 0.95)}
    return {key: round_digits(value) if type(value) is float else value for key, value in line.items()}


def _sum_cpu_ms(turns: Sequence[Round]) -> dict[str, float]:
    """CPU time of each process in a side's turns, for each of its claims."""
    claims = sum(len(each.to_allocated_s) for each in turns)
    return {name: round(sum(each.cpu_s[name] for each in turns) / claims * 1000, 1) for name in turns[0].cpu_s}


def build_quantiles(page: str, name: str, shares: Sequence[float]) -> dict[str, float]:
    """Upper bounds of a histogram's quantiles in milliseconds: the first bucket that holds so many."""
    buckets: list[tuple[float, float]] = []
    for line in page.splitlines():
        if line.startswith(f'{name}_bucket{{le="'):
            bound, count = line.split('"')[1], line.rsplit(" ", 1)[1]
            buckets.append((float(bound), float(count)))
    total = buckets[-1][1] if buckets else 0.0
    return {
        f"p{share * 100:g}_at_most_ms": next((bound for bound, count in buckets if count >= share * total), 0.0) * 1000
        for share in shares
    }


def measure_all(plane: ControlPlane, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The lines, as they come."""
    sights = Sights()
    with sights.watching(plane.layout.admin_kubeconfig):
        for qps in args.qps:
            plane.set_scheduler_rate(qps)
            for side in _SIDES:  # not counted: everybody reads what it needs, and compiles what it reads
                run_round(plane, sights, f"warm-{qps}-{side}".lower().replace(".", "-"), side, 20, is_backlog=False)
            for measure in args.measure:
                rounds: dict[str, list[Round]] = {side: [] for side in _SIDES}
                for turn in range(args.rounds):
                    for side in _SIDES if turn % 2 == 0 else reversed(_SIDES):
                        prefix = f"{measure}-{qps}-{turn}-{side}".lower().replace(".", "-")
                        done = run_round(plane, sights, prefix, side, args.claims, is_backlog=measure == "backlog")
                        rounds[side].append(done)
                yield build_line(measure, qps, rounds)
    page = plane.controller.ask("/metrics")[1]
    quantiles = build_quantiles(page, "gpu_dra_decision_seconds", (0.5, 0.99))
    yield {"figure": "controller-decision-in-a-cluster", **quantiles}


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """How much, and against what."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100, help="of each side, with 8 GPUs each (default 100)")
    parser.add_argument("--claims", type=int, default=300, help="in a turn (default 300)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side (default 3)")
    parser.add_argument(
        "--qps", type=_read_qps, nargs="+", default=[None, 200.0], help="kube-scheduler's: 'default' or a number"
    )
    parser.add_argument("--measure", nargs="+", choices=["stream", "backlog"], default=["stream", "backlog"])
    return parser.parse_args(argv)


def _read_qps(text: str) -> float | None:
    return None if text == "default" else float(text)


def describe_run(layout: Layout, args: argparse.Namespace, load: float) -> dict[str, Any]:
    """What the figures depend on."""
    cpus = os.cpu_count()
    sizes = {"nodes_a_side": args.nodes, "claims": args.claims, "rounds": args.rounds, "creators": CREATORS}
    versions = {"kubernetes": layout.kube_version, "python": sys.version.split()[0]}
    return (
        {"figure": "run", "cpus": cpus, "load_before": round(load, 1), "load_after": round(os.getloadavg()[0], 1)}
        | sizes
        | versions
    )


def main() -> None:
    """Print the lines; 1 where something did not work."""
    args = parse_arguments(sys.argv[1:])
    layout, load = read_layout(), os.getloadavg()[0]
    if layout.home.exists():
        sys.exit(f"bench: there is a cluster in {layout.home}; choose another DEVCLUSTER_HOME, or end it")
    try:
        with run_control_plane(layout, fenced=args.nodes, unfenced=args.nodes, machine=MACHINE) as plane:
            for line in measure_all(plane, args):
                print(json.dumps(line), flush=True)
            print(json.dumps(describe_run(layout, args, load)), flush=True)
    except (BenchFailed, DevclusterError) as err:
        sys.exit(f"bench: {err}")


if __name__ == "__main__":
    main()
