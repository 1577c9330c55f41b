"""Claims in words."""

from __future__ import annotations

from typing import Any

import pytest

from driver.cli.gpu.words import count, describe_links, describe_policy, describe_requests, describe_span_s, join_names
from tests.unit.allocator.cases import ask, problem
from tests.unit.allocator.cases import policy as policy_config
from tests.unit.allocator.cases import request as asked_request
from tests.unit.cli.gpu.stories import BOARDS
from tests.unit.controller.world import World, machine, request


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (-5, "0s"),
        (59.9, "59s"),
        (119, "119s"),
        (120, "2m"),
        (3599, "59m"),
        (3600, "1h"),
        (11520, "3h12m"),
        (36000 + 60, "10h"),
        (2 * 86400 - 1, "47h"),
        (2 * 86400 + 7200, "2d2h"),
        (30 * 86400 + 7200, "30d"),
    ],
)
def test_spans_of_time_are_short(seconds: float, text: str) -> None:
    assert describe_span_s(seconds) == text


def test_names_and_numbers() -> None:
    assert [count(number, "GPU") for number in (0, 1, 2)] == ["0 GPUs", "1 GPU", "2 GPUs"]
    assert join_names(["a", "b"]) == "a, b"
    assert join_names(["a", "b", "c", "d"], 2) == "a, b and 2 more"


REQUESTS: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("a count", {"requests": [request(count=4)]}, ("gpus: 4 of class gpu",)),
    ("one, where nothing is said", {"requests": [request()]}, ("gpus: 1 of class gpu",)),
    ("all", {"requests": [request(allocationMode="All")]}, ("gpus: all of class gpu",)),
    (
        "a selector, on one line",
        {"requests": [request(selectors=[{"cel": {"expression": "device.driver\n  == 'x'"}}])]},
        ("gpus: 1 of class gpu, where device.driver == 'x'",),
    ),
    ("admin access", {"requests": [request(adminAccess=True)]}, ("gpus: 1 of class gpu, with admin access",)),
    (
        "capacity",
        {"requests": [request(capacity={"requests": {"memory": "40Gi"}})]},
        ("gpus: 1 of class gpu, memory 40Gi",),
    ),
    (
        "alternatives",
        {
            "requests": [
                {
                    "name": "gpus",
                    "firstAvailable": [
                        {"name": "tight", "deviceClassName": "topology", "count": 4},
                        {"name": "any", "deviceClassName": "gpu", "count": 2},
                    ],
                }
            ]
        },
        ("gpus: the first of: tight: 4 of class topology; any: 2 of class gpu",),
    ),
    (
        "constraints",
        {
            "requests": [request("a"), request("b")],
            "constraints": [
                {"matchAttribute": "gpu.nvidia.com/nvlinkIsland"},
                {"requests": ["a", "b"], "distinctAttribute": "gpu.nvidia.com/productName"},
            ],
        },
        (
            "a: 1 of class gpu",
            "b: 1 of class gpu",
            "all of one gpu.nvidia.com/nvlinkIsland",
            "each of another gpu.nvidia.com/productName (a, b)",
        ),
    ),
]


@pytest.mark.parametrize(("devices", "expected"), [case[1:] for case in REQUESTS], ids=[case[0] for case in REQUESTS])
def test_requests_in_words(devices: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert describe_requests(World().claim("data", spec={"devices": devices})) == expected


def test_a_claim_of_another_version_is_not_read_in_part() -> None:
    (text,) = describe_requests(World().claim("data", spec={"devices": {"novelty": 1}}))
    assert text.startswith("not readable here: spec: ")


def test_a_long_selector_is_cut() -> None:
    long = " || ".join(f"device.driver == 'driver-{number}'" for number in range(9))
    (text,) = describe_requests(World().claim("data", request(selectors=[{"cel": {"expression": long}}])))
    assert text.endswith("...")
    assert len(text) < 140


def test_a_policy_is_told_where_there_is_one() -> None:
    plain, required = (
        problem(ask(asked_request(), config=config)).claims[0] for config in ([], [policy_config(mode="required")])
    )
    assert describe_policy(plain) == ""
    assert describe_policy(required) == "policy: nvlink required, pack"


LINKS = [
    ("one GPU", BOARDS, (0,), ""),
    ("a pair of an island", BOARDS, (0, 1), "linked by NVLink; as good as any 2 GPUs of this machine"),
    ("a whole island", BOARDS, (4, 5, 6, 7), "every hop of their ring is NVLink; as good as any 4 GPUs of this machine"),
    (
        "two islands",
        BOARDS,
        (0, 4),
        "linked by PCIe across NUMA nodes; the weakest hop has 3% of that of the best 2 GPUs of this machine",
    ),
    ("all of two boards", BOARDS, tuple(range(8)), "linked by PCIe across NUMA nodes; as good as any 8 GPUs of this machine"),
    ("a root without NVLink", "l40s", (0, 1), "linked by PCIe below one root; as good as any 2 GPUs of this machine"),
    (
        "a NUMA node without NVLink",
        "l40s",
        (0, 2),
        "linked by PCIe within one NUMA node; the weakest hop has 80% of that of the best 2 GPUs of this machine",
    ),
]


@pytest.mark.parametrize(("name", "positions", "text"), [case[1:] for case in LINKS], ids=[case[0] for case in LINKS])
def test_how_gpus_hang_together(name: str, positions: tuple[int, ...], text: str) -> None:
    world = World()
    world.node("node-a", machine(name))
    assert describe_links(world.cluster.fleet.nodes["node-a"], sum(1 << at for at in positions)) == text


def test_the_same_weakest_hop_with_less_in_all() -> None:
    """DGX-1V: a four of which not every hop is double."""
    world = World()
    world.node("node-a", machine("dgx-1v"))
    node = world.cluster.fleet.nodes["node-a"]
    texts = {describe_links(node, mask) for mask in range(256) if mask.bit_count() == 4}
    assert any("the weakest hop is that of the best 4 GPUs of this machine, all hops together have" in text for text in texts)
