"""GPUs are given as asked: by product, by island, by quad and pair; and a pod sees its own and no other."""

from __future__ import annotations

import dataclasses

from hack.devcluster import cluster
from tests.e2e import objects
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect, is_waiting

SUITE = Suite()
_FOUR_H100 = objects.claim_spec(
    [objects.exactly(count=4, selector='device.attributes["gpu.nvidia.com"].productName.matches("H100")')],
    [objects.same("nvlinkIsland")],
)


@SUITE.add("DGX H100: four on one island, twice; a third waits its turn")
def run_dgx_h100(stage: Stage) -> str:
    """Two pods fill the node; the third runs when one of them has gone, with the GPUs that came free."""
    stage.start_plugin("dgx-h100")
    stage.wait_pool(devices=8)
    first = stage.expect_own_devices("first", stage.run_pod("first", _FOUR_H100))
    second = stage.expect_own_devices("second", stage.run_pod("second", _FOUR_H100))
    expect(len(set(first + second)) == 8, f"eight GPUs for two pods, but {first} and {second}")
    stage.create_pod("third", _FOUR_H100)
    expect(is_waiting(stage.api, "third"), "the third pod does not wait though the node is full")
    stage.delete_pods("first")
    third = stage.expect_own_devices("third", stage.wait_running("third"))
    expect(set(third) == set(first), f"{first} came free, the third got {third}")
    return f"4 + 4 devices, then the freed 4: {', '.join(third)}"


@SUITE.add("DGX-1V: a quad is 0-3 or 4-7, a pair has a double link")
def run_dgx_1v(stage: Stage) -> str:
    """The two quads, then on a fresh node four pairs, each of two GPUs with two links between them."""
    stage.start_plugin("dgx-1v")
    stage.wait_pool(devices=8)
    quad = objects.claim_spec([objects.exactly(count=4)], [objects.same("nvlinkQuad")])
    quads = [_run_and_read_minors(stage, f"quad-{number}", quad) for number in range(2)]
    expect(sorted(quads) == [(0, 1, 2, 3), (4, 5, 6, 7)], f"the quads are {quads}")
    stage.delete_pods("quad-0", "quad-1")
    pair = objects.claim_spec([objects.exactly(count=2)], [objects.same("nvlinkPair")])
    pairs = [_run_and_read_minors(stage, f"pair-{number}", pair) for number in range(4)]
    expect(sorted(pairs) == [(0, 3), (1, 2), (4, 7), (5, 6)], f"the pairs are {pairs}, and only 03 12 47 56 are double")
    return f"quads {quads}, pairs {pairs}"


@SUITE.add("mock nodes share the cluster with the real one")
def run_on_mock_nodes(stage: Stage) -> str:
    """Nodes without a kubelet publish other machines; the scheduler finds the one that fits; all share a CDI folder."""
    machines = {"mock-1": "dgx-a100", "mock-2": "hgx-b200"}
    cluster.write_mock_nodes(stage.layout, list(machines))
    stage.start_plugin("dgx-h100")
    for node, machine in machines.items():
        folders = dataclasses.replace(stage.folders, node=node, kubelet_root=stage.layout.home / node)
        stage.new_plugin(machine, folders=folders).start()
    try:
        stage.api.wait("ResourceSlice", None, lambda found: len(found) == 3, what="three pools")
        b200 = objects.exactly(count=8, selector='device.attributes["gpu.nvidia.com"].productName.matches("B200")')
        stage.create_pod("far", objects.claim_spec([b200], [objects.same("nvlinkIsland")]))
        far = stage.wait_pod("far", lambda pod: bool(pod["spec"].get("nodeName")), what="bound")
        expect(far["spec"]["nodeName"] == "mock-2", f"the pod for B200 is bound to {far['spec']['nodeName']}")
        stage.expect_own_devices("near", stage.run_pod("near", _FOUR_H100))
        stage.delete_pods("far", grace_s=0)
    finally:
        cluster.write_mock_nodes(stage.layout, [])
    return "B200 on mock-2, H100 on the real node, at the same time"


def _run_and_read_minors(stage: Stage, name: str, spec: dict[str, object]) -> tuple[int, ...]:
    view = stage.run_pod(name, spec)
    stage.expect_own_devices(name, view)
    return tuple(sorted(int(node.removeprefix("/dev/nvidia")) for node in view.gpu_nodes))
