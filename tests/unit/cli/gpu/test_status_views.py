"""The values of ``kubectl gpu status``: what ``-o json`` prints, and what its tables are made of."""

from __future__ import annotations

import msgspec

from driver.cli.gpu.status_views import CountsView, StatusView
from tests.unit.cli.gpu.fleets import SICK_SINCE, partitioned, sick_fleet, status
from tests.unit.cli.gpu.stories import AT, BOARDS, gpu, islands
from tests.unit.controller.world import request

STATUS_FIELDS = ("format", "driver", "subject", "counts", "products", "nodes", "troubles", "claims", "waiting", "notes")
GPU_FIELDS = (
    *("gpu", "device", "product", "memory", "numaNode", "pcieRoot", "island", "pair"),
    *("state", "isHealthy", "isShareable", "memorySlices", "uses", "freeParts"),
)
TROUBLE_FIELDS = (
    *("node", "gpu", "device", "devices", "key", "value", "effect"),
    *("isBlocking", "since", "source", "text"),
)


def test_counts_are_told_apart() -> None:
    assert status(sick_fleet()).counts == CountsView(
        gpus=32, allocatable=22, free=15, allocated=8, unfit=1, closed=8, unknown=0, unhealthy=2
    )


def test_products_are_the_sums_of_their_nodes() -> None:
    view = status(sick_fleet())
    for product in view.products:
        nodes = [each for each in view.nodes if (each.product, each.allocator) == (product.product, product.allocator)]
        assert product.nodes == len(nodes)
        for name in CountsView.__struct_fields__:
            assert getattr(product.counts, name) == sum(getattr(each.counts, name) for each in nodes)


def test_who_says_what_is_wrong_and_since_when() -> None:
    found = [(each.node, each.gpu, each.source, each.since, each.is_blocking) for each in status(sick_fleet()).troubles]
    assert found == [("node-a", 0, "bad", None, True), ("node-b", 3, "slice", SICK_SINCE, True)]


def test_a_claim_of_another_driver_does_not_wait_for_gpus() -> None:
    world = islands("node-a")
    world.job("nic", request(device_class="nic"))
    assert status(world).waiting == ()


def test_without_classes_every_claim_that_waits_is_shown() -> None:
    world = islands("node-a")
    world.job("nic", request(device_class="nic"))
    assert [each.claim for each in status(world, are_classes_known=False).waiting] == ["team/nic"]


def test_the_claim_of_a_pod_that_has_ended_does_not_wait() -> None:
    world = islands("node-a")
    world.job("ended", request(), status={"phase": "Failed"})
    assert status(world).waiting == ()


def test_json_comes_back_as_it_was() -> None:
    for view in (status(sick_fleet()), status(partitioned())):
        assert msgspec.json.decode(msgspec.json.encode(view), type=StatusView) == view


def test_the_names_in_the_json_are_kept() -> None:
    """A stable interface: names may come, none may go."""
    view = msgspec.to_builtins(status(sick_fleet()))
    assert view["format"] == "gpu-dra.io/status/v1"
    assert tuple(view) == STATUS_FIELDS
    assert tuple(view["nodes"][0]["gpus"][0]) == GPU_FIELDS
    assert tuple(view["troubles"][0]) == TROUBLE_FIELDS


def test_who_has_a_gpu_is_told_whole() -> None:
    (use,) = status(islands("node-a")).nodes[0].gpus[0].uses
    assert msgspec.to_builtins(use) == {
        "claim": "team/node-a-one",
        "pods": ("node-a-one",),
        "since": AT,
        "allocator": "controller",
        "request": "gpus",
        "device": gpu(BOARDS, 0)[0],
        "profile": None,
        "memory": None,
        "memorySlices": (),
    }


def test_a_taint_of_a_gpu_and_its_parts_is_one_trouble() -> None:
    world = partitioned()
    world.rule("all", pool="node-m")
    view = status(world)
    assert [(each.gpu, each.devices) for each in view.troubles] == [(0, 26), (1, 26)]
