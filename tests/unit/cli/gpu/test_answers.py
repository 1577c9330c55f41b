"""Node by node: what keeps it from serving what waits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from driver.api.resource_v1 import Attribute
from driver.cli.gpu.views import NodeAnswer
from driver.controller.objects.model import Claim
from tests.unit.cli.gpu.stories import BOARDS, cut_gpus, explain, gpu, islands, occupy
from tests.unit.controller.world import World, machine, policy, request

TAINT = {"key": "example.com/x", "effect": "NoSchedule"}
NVLINK = {"config": [policy(mode="required")]}


def answers(world: World, name: str = "big") -> dict[str, NodeAnswer]:
    return {each.node: each for each in explain(world, name).nodes}


def verdicts(world: World, name: str = "big") -> dict[str, str]:
    return {each.node: each.verdict for each in explain(world, name).nodes}


def big(world: World, count: int = 4, *, devices: dict[str, Any] | None = None, **pod: Any) -> None:
    """A pod that waits for so many GPUs on one island."""
    world.job("big", request(device_class="topology", count=count), devices=NVLINK if devices is None else devices, **pod)


def test_too_few_devices_in_numbers_and_who_has_them() -> None:
    world = islands("node-a")
    big(world)
    found = answers(world)["node-a"]
    assert found.verdict == "devices"
    assert found.reasons == ("needs 4 on one NVLink island; 4 of 8 devices free, the largest free set is 2",)
    assert (found.need, found.free, found.largest) == (4, 4, 2)
    assert [(way.gpus, way.free, [each.claim for each in way.held_by]) for way in found.ways] == [
        ((0, 1, 2, 3), 2, ["team/node-a-one"])
    ]


def test_the_same_is_told_for_a_constraint() -> None:
    world = islands("node-a")
    big(world, devices={"constraints": [{"matchAttribute": "gpu.nvidia.com/nvlinkIsland"}]})
    found = answers(world)["node-a"]
    assert found.reasons == ("needs 4 on one NVLink island; 4 of 8 devices free, the largest free set is 2",)
    assert [(way.gpus, way.free) for way in found.ways] == [((0, 1, 2, 3), 2)]


def test_a_node_that_could_not_even_when_empty_says_so() -> None:
    world = islands("node-a")
    big(world, 8)
    found = answers(world)["node-a"]
    assert found.reasons[-1] == "it could not even if all of its devices were free"
    assert found.ways == ()


def test_where_devices_are_free_the_pod_may_not_fit() -> None:
    world = islands("node-b")
    world.node("node-a", machine(BOARDS), taints=[TAINT])
    big(world)
    assert verdicts(world) == {"node-a": "pod", "node-b": "devices"}
    assert answers(world)["node-a"].reasons == ("taint example.com/x:NoSchedule",)


def test_both_may_be_in_the_way() -> None:
    world = islands("node-a")
    big(world, nodeSelector={"disk": "ssd"}, containers=[{"name": "main", "resources": {"requests": {"cpu": "100"}}}])
    assert answers(world)["node-a"].reasons == (
        "needs 4 on one NVLink island; 4 of 8 devices free, the largest free set is 2",
        "node selector disk=ssd",
        "not enough cpu: needs 100, 64 of 64 are left",
    )


def test_nodes_that_are_not_the_controllers_say_whose_they_are() -> None:
    world = islands("node-a")
    world.node("node-u", machine("dgx-h100", "scheduler"))
    world.node("node-x", machine("dgx-h100", "draining"))
    world.slice("node-y", machine(BOARDS), of=2)
    big(world)
    found = answers(world)
    assert {name: each.verdict for name, each in found.items()} == {
        "node-a": "devices",
        "node-u": "scheduler",
        "node-x": "draining",
        "node-y": "incomplete",
    }
    assert found["node-u"].reasons == ("its 8 devices are kube-scheduler's: not fenced",)
    assert found["node-x"].reasons[0].startswith("its 8 devices go from one allocator to the other")
    assert found["node-y"].reasons == ("its pool is incomplete: 1 of 2 slices; it is being updated",)


def test_nodes_of_another_product_have_no_such_devices() -> None:
    world = islands("node-a")
    world.node("node-h", machine("dgx-h100"))
    wanted = "device.attributes['gpu.nvidia.com'].productName.contains('A100')"
    world.job("big", request(device_class="topology", count=8, selectors=[{"cel": {"expression": wanted}}]))
    found = answers(world)["node-h"]
    assert (found.verdict, found.reasons) == ("none", ("none of its devices is what request gpus asks for",))


def test_tainted_devices_are_named_with_their_taints() -> None:
    world = islands("node-a")
    for at in (2, 3):
        world.rule(f"bad-{at}", device=gpu(BOARDS, at)[0])
    big(world, 3)
    assert "devices are tainted: example.com/bad" in answers(world)["node-a"].reasons


def test_a_selector_that_fails_on_a_device_is_told_with_it() -> None:
    """B48: one odd device keeps nobody from the others, and its node says so."""
    world = World()
    world.classes()
    first, *others = machine(BOARDS)
    named = msgspec.structs.replace(first, attributes={**first.attributes, "rack": Attribute(string="r1")})
    world.node("node-a", (named, *others))
    expression = "device.attributes['gpu.nvidia.com'].rack == 'r1'"
    world.job("big", request(device_class="topology", count=2, selectors=[{"cel": {"expression": expression}}]))
    found = answers(world)["node-a"]
    assert (found.verdict, found.largest) == ("devices", 1)
    assert found.reasons[-1].startswith(f"selector failed on node-a/{gpu(BOARDS, 1)[0]}: ")


def test_one_gpu_can_be_had_while_four_cannot() -> None:
    world = islands("node-a", "node-b", taken={"node-a": [0]})
    world.job("big", request(count=1))
    assert verdicts(world) == {"node-a": "fits", "node-b": "fits"}
    assert explain(world, "big").state == "placeable"


def test_a_node_that_is_held_for_a_claim_that_starves() -> None:
    """Both pods have waited for an hour; who asks for more, and is as old, comes first."""
    world = islands("node-a", taken={"node-a": [0, 4]})
    big(world, 4)
    world.job("small", request(count=1), created="2027-01-15T07:59:00Z")
    assert verdicts(world, "small") == {"node-a": "fits"}
    view = explain(world, "small", is_held=True)
    assert (view.state, view.nodes[0].verdict) == ("waiting", "held")
    assert view.nodes[0].reasons == ("the node is held for pod team/big, which has waited long",)
    assert view.summary == "devices are free on node-a, but it is held for pod team/big, which has waited long"
    assert explain(world, "big", is_held=True).nodes[0].verdict == "devices"


def test_the_nearest_node_comes_first() -> None:
    world = islands("node-a", "node-b", "node-c", taken={})
    occupy(world, "a", "node-a", gpu(BOARDS, 0, 1, 2, 4, 5, 6))
    occupy(world, "b", "node-b", gpu(BOARDS, 0, 4))
    occupy(world, "c", "node-c", gpu(BOARDS, 0, 1, 4, 5))
    big(world)
    assert list(verdicts(world)) == ["node-b", "node-c", "node-a"]


def test_requests_that_fit_only_alone() -> None:
    world = islands("node-a", taken={"node-a": [0, 1]})
    world.job("big", request("one", device_class="topology", count=4), request("two", device_class="topology", count=4))
    assert "each request fits alone, but not all of them together" in answers(world)["node-a"].reasons


def test_all_devices_of_a_node_are_asked_for() -> None:
    world = islands("node-a")
    world.job("big", request(device_class="topology", allocationMode="All"))
    found = answers(world)["node-a"]
    assert found.verdict == "devices"
    assert found.reasons[0].startswith("needs all on one node; 4 of 8 devices free")
    assert found.ways == ()


@pytest.mark.parametrize("value", ["controller", "scheduler"])
def test_what_is_not_for_the_controller_shows_whose_devices_there_are(value: str) -> None:
    world = World()
    world.classes()
    world.node("node-a", machine(BOARDS, value))
    world.job("big", request(device_class="nothing"))
    assert verdicts(world) == {"node-a": value}


def test_nodes_without_a_node_object_take_no_pod() -> None:
    world = World()
    world.classes()
    world.slice("node-a", machine(BOARDS))
    big(world)
    assert answers(world)["node-a"].reasons == ("there is no Node of this name",)


def test_claims_that_are_gone_are_in_nobodys_way() -> None:
    world = islands("node-a")
    big(world)
    world.remove(Claim, "node-a-one")
    assert explain(world, "big").state == "placeable"


def test_the_counter_that_is_short_is_told_with_its_gpu() -> None:
    """B71: of two GPUs the one that lacks least."""
    world = cut_gpus("node-a", is_fenced=True)
    world.classes({"mig": {"selectors": [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].type == 'mig'"}}]}})
    occupy(world, "whole", "node-a", ["gpu-0"])
    occupy(world, "part", "node-a", ["gpu-1-mig-4g40gb-5-0", "gpu-1-mig-2g20gb-14-4"])
    profile = {"cel": {"expression": "device.attributes['gpu.nvidia.com'].profile == '3g.40gb'"}}
    world.job("big", request(device_class="mig", selectors=[profile]))
    assert answers(world)["node-a"].reasons == (
        "needs 1 on one node; 0 of 4 devices free, the largest free set is 0",
        "gpu-1 has 2 of 8 memory slices free, 3g.40gb needs 4",
    )
    assert "node-a: gpu-1 has 2 of 8 memory slices free, 3g.40gb needs 4" in explain(world, "big").summary
