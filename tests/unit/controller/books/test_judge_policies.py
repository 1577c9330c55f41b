"""Policies that must hold: whose a claim is that has one."""

from __future__ import annotations

from typing import Any

import pytest

from driver.controller.books.judge import Whose
from tests.unit.controller.books.fleets import first_available, mixed, product
from tests.unit.controller.world import DRIVER, policy, request

REQUIRED = [policy(mode="required", scope="numa")]
ALLOCATOR = f"device.attributes['{DRIVER}'].allocator"
LEAKS: list[tuple[str, list[dict[str, Any]], bool]] = [
    ("no selector says whose the devices are", [request()], False),
    ("the class does", [request(device_class="topology")], True),
    ("the request does", [request(selectors=[{"cel": {"expression": f"{ALLOCATOR} == 'controller'"}}])], True),
    ("by what it must not be", [request(selectors=[{"cel": {"expression": f"{ALLOCATOR} != 'scheduler'"}}])], True),
    ("with a way around it", [request(selectors=[{"cel": {"expression": f"{ALLOCATOR} == 'controller' || true"}}])], False),
    (
        "in words that only look like it",
        [request(selectors=[{"cel": {"expression": f"{ALLOCATOR} in ['controller', 'scheduler']"}}])],
        False,
    ),
    ("by a product that only fenced nodes have now", [request(selectors=[product("H100")])], False),
    ("one request does, the other does not", [request(device_class="topology"), request("more")], False),
    (
        "an alternative does not",
        [first_available({"deviceClassName": "topology"}, {"deviceClassName": "gpu"})],
        False,
    ),
]


@pytest.mark.parametrize(("requests", "is_ours"), [case[1:] for case in LEAKS], ids=[case[0] for case in LEAKS])
def test_a_required_policy_is_honoured_only_where_kube_scheduler_cannot_serve_the_claim(
    requests: list[dict[str, Any]], is_ours: bool
) -> None:
    """R4: it would give the first devices that fit, without a look at the policy."""
    made = mixed()
    found = made.cluster.judge.judge(made.claim("c", *requests, config=REQUIRED))
    if is_ours:
        assert (found.whose, found.reason) == (Whose.OURS, "")
    else:
        assert (found.whose, found.is_fault) == (Whose.NOBODYS, True)
        assert "use DeviceClass topology.gpu.nvidia.com, or a selector that demands allocator == 'controller'" in found.reason


def test_a_preferred_policy_is_honoured_wherever() -> None:
    made = mixed()
    assert made.cluster.judge.judge(made.claim("c", config=[policy(mode="preferred")])).whose is Whose.OURS
