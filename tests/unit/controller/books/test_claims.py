"""What claims hold of the fleet, and what is reserved for them until the API shows it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from driver.allocator.device_node import DeviceId
from driver.allocator.fleet import Holding
from driver.api.resource_v1 import Capacity
from driver.controller.books.claims import find_only_node
from driver.controller.objects.model import Claim, NodeSelector
from driver.kube.changes import Change, ChangeKind
from tests.unit.controller.world import DRIVER, World, gpus, tied_to, world


def reserve(made: World, name: str, *devices: str, node: str = "a") -> None:
    holdings = [Holding(device=DeviceId(DRIVER, node, each)) for each in devices]
    made.cluster.reserve(made.get(Claim, name).metadata.uid, holdings, node)


def is_open(made: World, name: str) -> bool:
    return made.cluster.claim_book.is_open(made.get(Claim, name))


def test_what_any_claim_has_is_held_whoever_allocated_it() -> None:
    made = world("a")
    made.claim("c")
    made.allocate("c", "a", "gpu-1", "gpu-2")
    assert made.free() == {"a": 2}
    made.remove(Claim, "c")
    assert made.free() == {"a": 4}


def test_a_claim_that_is_cleared_holds_nothing_and_is_open_again() -> None:
    made = world("a")
    made.claim("c")
    made.allocate("c", "a", "gpu-1")
    assert is_open(made, "c") is False
    made.change_claim("c", status={})
    assert (made.free(), is_open(made, "c")) == ({"a": 4}, True)


def test_admin_access_and_other_drivers_devices_hold_nothing() -> None:
    made = world("a")
    made.claim("admin")
    made.allocate("admin", "a", "gpu-0", adminAccess=True)
    made.claim("nic")
    made.allocate("nic", "a", "gpu-1", driver="nic.example.com")
    assert made.free() == {"a": 4}


def test_devices_that_no_pool_has_yet_are_held_when_it_comes() -> None:
    """Claims may be listed before slices."""
    made = world()
    made.claim("c")
    made.allocate("c", "a", "gpu-0")
    made.node("a", gpus(4))
    assert made.free() == {"a": 3}


def test_a_device_in_two_claims_is_free_only_when_both_are_gone() -> None:
    made = world("a")
    for name in ("c", "d"):
        made.claim(name)
        made.allocate(name, "a", "gpu-0")
    made.remove(Claim, "c")
    assert made.free() == {"a": 3}
    made.remove(Claim, "d")
    assert made.free() == {"a": 4}


def test_shares_add_up_and_an_amount_that_cannot_be_read_takes_the_whole_device() -> None:
    shared = msgspec.structs.replace(
        gpus(1)[0], allow_multiple_allocations=True, capacity={"memory": Capacity(value="80Gi")}, name="gpu-0"
    )
    made = world()
    made.node("a", [shared])
    share = "00000000-0000-4000-8000-000000000001"
    made.claim("c")
    made.allocate("c", "a", "gpu-0", shareID=share, consumedCapacity={"memory": "10Gi"})
    assert made.cluster.fleet.taken("a").shares == {0: {"memory": 10 * 1024**3}}
    made.claim("d")
    made.allocate("d", "a", "gpu-0", shareID=share, consumedCapacity={"memory": "much"})
    assert made.cluster.fleet.taken("a").mask == 1


def test_a_reservation_holds_until_the_claim_is_seen_allocated() -> None:
    made = world("a")
    made.claim("c")
    reserve(made, "c", "gpu-0", "gpu-1")
    assert (made.free(), is_open(made, "c")) == ({"a": 2}, False)
    made.change_claim("c", metadata={"finalizers": ["x"]})
    assert made.free() == {"a": 2}
    made.allocate("c", "a", "gpu-0", "gpu-1")
    assert (made.free(), dict(made.cluster.claim_book.reserved)) == ({"a": 2}, {})
    made.change_claim("c", status={})
    assert made.free() == {"a": 4}


def test_a_reservation_gives_way_to_what_somebody_else_allocated() -> None:
    made = world("a", "b")
    made.claim("c")
    reserve(made, "c", "gpu-0", "gpu-1")
    made.allocate("c", "b", "gpu-3")
    assert made.free() == {"a": 4, "b": 3}


def test_a_reservation_ends_with_its_claim() -> None:
    made = world("a")
    made.claim("c")
    reserve(made, "c", "gpu-0")
    made.remove(Claim, "c")
    assert made.free() == {"a": 4}


def test_a_cancelled_reservation_gives_back_and_may_be_cancelled_again() -> None:
    made = world("a")
    claim = made.claim("c")
    reserve(made, "c", "gpu-0")
    made.cluster.cancel(claim.metadata.uid)
    made.cluster.cancel(claim.metadata.uid)
    made.cluster.cancel("nobody")
    assert (made.free(), is_open(made, "c")) == ({"a": 4}, True)


def test_a_claim_of_the_same_name_is_another_claim() -> None:
    """Deleted and made again: what the old one held is free, what the new one has is not touched by the old one's end."""
    made = world("a")
    made.claim("c")
    old = made.allocate("c", "a", "gpu-0")
    made.remove(Claim, "c")
    new = made.claim("c")
    assert old.metadata.uid != new.metadata.uid
    assert made.cluster.claim_book.find("team", "c") is new
    assert made.free() == {"a": 4}


def test_what_is_older_than_our_own_write_frees_nothing() -> None:
    """The watch may still have states to tell from before the write: in between nobody must get the devices."""
    made = world("a")
    made.claim("c")
    reserve(made, "c", "gpu-0")
    before = made.get(Claim, "c")
    written = made.allocate("c", "a", "gpu-0")
    made.cluster.note_claim(_modified(before))  # as if the watch had not yet told
    assert made.free() == {"a": 4}, "the watch is believed where nothing of ours was written"
    made.cluster.note_written(_newer(written, 100))
    made.cluster.note_claim(_modified(_newer(before, 99)))
    assert made.free() == {"a": 3}
    made.cluster.note_claim(_modified(_newer(written, 100)))
    made.cluster.note_claim(_modified(_newer(before, 101)))
    assert made.free() == {"a": 4}


def test_an_answer_that_is_older_than_what_the_watch_told_is_passed_over() -> None:
    made = world("a")
    made.claim("c")
    written = made.allocate("c", "a", "gpu-0")
    made.change_claim("c", status={})
    made.cluster.note_written(written)
    assert made.free() == {"a": 4}


def test_an_answer_for_a_claim_that_is_gone_holds_nothing() -> None:
    made = world("a")
    made.claim("c")
    written = made.allocate("c", "a", "gpu-0")
    made.remove(Claim, "c")
    made.cluster.note_written(written)
    assert made.free() == {"a": 4}


NODE_SELECTORS: list[tuple[str, dict[str, Any], str | None]] = [
    ("as allocations have it", tied_to("a"), "a"),
    ("two names", tied_to("a", "b"), None),
    ("two terms", {"nodeSelectorTerms": tied_to("a")["nodeSelectorTerms"] * 2}, None),
    ("no terms", {"nodeSelectorTerms": []}, None),
    ("a label", {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}, None),
    (
        "a name that it must not be",
        {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}]},
        None,
    ),
]


@pytest.mark.parametrize(("selector", "node"), [case[1:] for case in NODE_SELECTORS], ids=[case[0] for case in NODE_SELECTORS])
def test_which_node_an_allocation_is_tied_to(selector: dict[str, Any], node: str | None) -> None:
    assert find_only_node(msgspec.convert(selector, NodeSelector)) == node


def _modified(claim: Claim) -> Change[Claim]:
    return Change(kind=ChangeKind.MODIFIED, item=claim)


def _newer(claim: Claim, version: int) -> Claim:
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, resource_version=str(version)))
