"""``python -m hack.bench.profile``: where the time of a prepare goes, step by step and function by function.

One thread, no gRPC, the stand-in API server in a process of its own: what remains is the work for a claim. The steps are timed
first, without a profiler; then the same again below one, whose figures are good for comparing functions, not as times.
"""

from __future__ import annotations

import argparse
import cProfile
import functools
import itertools
import pstats
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from driver.cdi.host import HostFacts
from driver.claims.effects import OnStep
from driver.claims.model import ClaimRef, Deadline
from driver.claims.prepare import ClaimPreparer
from driver.cli.backend import OpenedForEachPass, open_mock_backend, open_nvml
from driver.kube.client import KubeClient
from driver.kube.credentials import read_credentials
from driver.kube.events import EventRecorder, Source
from driver.names import ClaimUID, DeviceName
from driver.node.claim_parts import build_surroundings
from driver.node.claim_reader import ApiClaimReader
from driver.node.ground import NodeGround
from driver.node.metrics.served import NodeMetrics
from driver.node.reports import NodeReports
from driver.node.settings import NodeSettings
from driver.node.sharing import build_sharing
from driver.node.state import NodeState
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.build import build_devices
from driver.topology.build import build_topology
from driver.topology.mig_offer import MigSetting, OfferInputs, build_offers
from hack.bench.calls import Claim
from hack.bench.cluster import DRIVER, Author, StandIn
from hack.bench.figure import percentile
from hack.bench.stage import NODE


class Asked:
    """A call whose caller waits."""

    def deadline(self) -> Deadline:
        """A minute from now."""
        return Deadline(60.0)

    def is_active(self) -> bool:
        """It does."""
        return True


class Steps:
    """Time between one step's beginning and the next one's, by step, in ms: on the clock, and of this thread's CPU."""

    def __init__(self) -> None:
        self.took: dict[str, list[float]] = defaultdict(list)
        self.cpu: dict[str, float] = defaultdict(float)
        self._last = ("", 0.0, 0.0)

    def begin(self, name: str) -> None:
        """``name`` begins now (nothing does, when it is empty); what was before it ends."""
        now, cpu = time.perf_counter(), time.thread_time()
        before, since, cpu_since = self._last
        if before:
            self.took[before].append((now - since) * 1000)
            self.cpu[before] += (cpu - cpu_since) * 1000
        self._last = (name, time.perf_counter(), time.thread_time())


def build_preparer(folder: Path, kubeconfig: Path, on_step: OnStep) -> tuple[ClaimPreparer, list[DeviceName]]:
    """The node half's way to prepare claims, as the plugin puts it together, and the devices of a DGX H100."""
    backend = open_mock_backend("dgx-h100", folder / "mock")
    state = NodeState(backend.roots)
    topology = build_topology(OpenedForEachPass(backend).read())
    offers = build_offers(topology, OfferInputs(setting=MigSetting.OFF, has_counters=False))
    devices = build_devices(topology, node_uid="bench", allocator=Allocator.SCHEDULER, offers=offers).devices
    state.note(topology, offers, devices)
    client = KubeClient(read_credentials(str(kubeconfig)))
    ground = NodeGround(
        settings=_build_settings(folder),
        roots=backend.roots,
        host=HostFacts(backend.roots),
        client=client,
        open_nvml=functools.partial(open_nvml, backend),
        state=state,
        reports=NodeReports(EventRecorder(client, Source(controller="bench", instance=NODE)), NODE),
    )
    metrics = NodeMetrics(ApiClaimReader(client), ground.open_nvml)
    preparer = ClaimPreparer(replace(build_surroundings(ground, metrics, build_sharing(ground)), on_step=on_step))
    preparer.start()
    return preparer, [DeviceName(device.name) for device in devices]


def _build_settings(folder: Path) -> NodeSettings:
    return NodeSettings(
        driver_name=DRIVER,
        node_name=NODE,
        allocator=Allocator.SCHEDULER,
        kubelet_root=folder / "kubelet",
        registry_dir=folder / "registry",
        plugin_dir=folder / "p",
        cdi_root=folder / "cdi",
        mps_dir=folder / "mps",
        isolates_mps=False,
    )


def prepare_and_release(preparer: ClaimPreparer, claims: list[Claim], begin: Callable[[str], None]) -> None:
    """Each claim is prepared, prepared again, and unprepared, in this thread."""
    call = Asked()
    for namespace, name, uid in claims:
        ref = ClaimRef(namespace=namespace, name=name, uid=ClaimUID(uid))
        begin("prepare: locks, record, GET, plan, index, driver files")
        preparer.work.prepare(ref, call)
        begin("prepare again")
        preparer.work.prepare(ref, call)
        begin("unprepare: count, lock, record")
        preparer.work.unprepare(ref, call.deadline())
        begin("")


def main(argv: list[str]) -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m hack.bench.profile", description=__doc__)
    parser.add_argument("-n", type=int, default=200, dest="count", help="claims (default 200)")
    parser.add_argument("--lines", type=int, default=25, help="functions shown (default 25)")
    arguments = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="gb", dir="/tmp"))
    cluster = StandIn(folder)
    try:
        author = Author(cluster)
        steps = Steps()
        preparer, devices = build_preparer(folder, cluster.kubeconfig, steps.begin)
        around = itertools.cycle(devices)
        claims = [author.make_claim(NODE, [next(around)]) for _ in range(arguments.count)]
        time.sleep(3.0)  # the driver files' cache trusts folders that nobody changed for 2 s
        prepare_and_release(preparer, claims[:5], steps.begin)
        steps.took.clear()
        steps.cpu.clear()
        prepare_and_release(preparer, claims, steps.begin)
        print("     p50      p95      CPU, ms")
        for name, took in steps.took.items():
            mean = steps.cpu[name] / arguments.count
            print(f"{percentile(took, 0.5):8.3f} {percentile(took, 0.95):8.3f} {mean:8.3f}  {name}")
        profiler = cProfile.Profile(time.thread_time)
        profiler.runcall(prepare_and_release, preparer, claims, steps.begin)
        pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(arguments.lines)
        pstats.Stats(profiler).strip_dirs().sort_stats("cumtime").print_stats(2 * arguments.lines)
    finally:
        cluster.end()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
