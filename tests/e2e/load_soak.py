"""The load of both halves whole, and its report."""

from __future__ import annotations

import datetime

from tests.e2e import load
from tests.e2e.controller_load import ControllerLoad, run_controller_load
from tests.e2e.node_load import GPUS, NodeLoad, run_node_load
from tests.e2e.stage import Stage

CLAIMS = 500
CYCLES = 10_000
NODES = 2_000
MINUTES = 10


def run_load_soak(stage: Stage, seed: int) -> str:
    """The node half, then the controller half; the report as Markdown.

    Raises:
        NotAsExpected: a process grew, or something was lost.
    """
    node = run_node_load(stage, claims=CLAIMS, cycles=CYCLES)
    stage.clear()
    controller = run_controller_load(stage, nodes=NODES, seconds=MINUTES * 60.0, seed=seed)
    return build_report(stage.layout.kube_version, node, controller, seed)


def build_report(kube_version: str, node: NodeLoad, controller: ControllerLoad, seed: int) -> str:
    """The runs in numbers, sample by sample."""
    today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    limits = f"{load.RSS_SLACK_SHARE:.0%} and {load.RSS_SLACK_BYTES >> 20} MiB of memory, {load.THREAD_SLACK} threads"
    return f"""# Load: does anything grow?

{today}; `hack/devcluster/e2e.sh --soak load`: a real API server, kubelet, kube-scheduler and kube-controller-manager,
Kubernetes {kube_version}. {load.SAMPLES} samples a run, from `/proc`. A run fails if the median of the last five is above
that of the third to the seventh by {limits} or {load.DESCRIPTOR_SLACK} file
descriptors, or if the plugin at rest has {load.IDLE_DESCRIPTOR_SLACK + 1} more than after a first cycle: over 10,000 cycles a
leak of 700 bytes a cycle is found, and so is one of a descriptor in every thousand.

## Node half

{node.describe()}.

Claims of {node.claims} pods on one node with {GPUS} mock GPUs, prepared and unprepared by calls as the kubelet makes them,
eight at once. Nothing is held at the end, and nothing is left on disk.

{_table(node.samples)}
## Controller half

{controller.describe()}.

Fenced nodes that are Node and ResourceSlices alone; pods of all kinds with 1 to 8 GPUs. Seed {seed}. No device was in two
claims, no pod was stuck, no allocation was left.

{_table(controller.samples)}"""


def _table(samples: tuple[load.Footprint, ...]) -> str:
    rows = "".join(
        f"| {(number + 1) * 100 // load.SAMPLES} % | {each.rss_bytes / 1e6:.1f} | {each.threads} | {each.descriptors} |\n"
        for number, each in enumerate(samples)
    )
    return "| done | memory, MB | threads | file descriptors |\n| --- | --- | --- | --- |\n" + rows
