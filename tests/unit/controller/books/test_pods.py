"""Which pods wait, and who uses which claim."""

from __future__ import annotations

from typing import Any

import pytest

from driver.controller.books.pods import is_made_for, list_claim_names
from driver.controller.objects.model import Claim, Pod
from tests.unit.controller.world import CREATED, World, names, world

OBSTACLES: list[tuple[str, dict[str, Any], str | None]] = [
    ("waits", {}, None),
    ("is bound, and its claim is not allocated", {"nodeName": "a"}, None),
    ("is pending, as the server says", {"status": {"phase": "Pending"}}, None),
    ("is being deleted", {"deleted": CREATED}, "it is being deleted"),
    ("has succeeded", {"status": {"phase": "Succeeded"}}, "it has ended"),
    ("has failed", {"status": {"phase": "Failed"}}, "it has ended"),
    (
        "is gated",
        {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]},
        "it has the scheduling gate kueue.x-k8s.io/admission",
    ),
    ("has another scheduler", {"schedulerName": "volcano"}, "its scheduler volcano is not one that the controller works for"),
]


@pytest.mark.parametrize(("fields", "obstacle"), [case[1:] for case in OBSTACLES], ids=[case[0] for case in OBSTACLES])
def test_which_pods_wait(fields: dict[str, Any], obstacle: str | None) -> None:
    """R7: claims of gated pods are made at once, and would hoard devices."""
    made = world("a")
    made.claim("c")
    pod = made.pod("p", "c", **fields)
    assert made.cluster.pod_book.find_obstacle(pod) == obstacle
    assert (len(made.cluster.demands()) == 1) is (obstacle is None)


def test_a_pod_without_claims_is_not_kept() -> None:
    made = world("a")
    made.pod("p")
    assert names(made.cluster.pods.values()) == []


def test_a_gate_that_opens_lets_the_pod_wait_and_one_that_closes_ends_it() -> None:
    made = world("a")
    made.claim("c")
    made.pod("p", "c", schedulingGates=[{"name": "gate"}])
    assert made.demands() == []
    made.pod("p", "c")
    assert made.demands() == [(["p"], ["c"])]
    made.pod("p", "c", schedulingGates=[{"name": "gate"}])
    assert made.demands() == []


def users(made: World, claim: str) -> list[str]:
    return names(made.cluster.users(made.get(Claim, claim)))


def test_who_uses_a_claim_is_known_for_named_and_made_claims() -> None:
    made = world("a")
    made.claim("shared")
    made.pod("p", "shared", made=["own"])
    made.pod("q", "shared")
    made.claim("own", owner="p")
    assert (users(made, "shared"), users(made, "own")) == (["p", "q"], ["p"])
    made.remove(Pod, "p")
    assert (users(made, "shared"), users(made, "own")) == (["q"], [])


def test_a_claim_is_known_by_its_namespace_too() -> None:
    made = world("a")
    made.claim("c")
    pod = made.pod("p", "c")
    assert [key for _, key in list_claim_names(pod)] == [("team", "c")]


def test_a_claim_that_is_still_to_be_made_has_no_name_and_one_that_is_not_needed_is_left_out() -> None:
    made = world("a")
    waits = made.pod("p", made=["own"], status={"resourceClaimStatuses": []})
    assert [key for _, key in list_claim_names(waits)] == [None]
    needs_none = made.pod("q", made=["own"], status={"resourceClaimStatuses": [{"name": "own"}]})
    assert list(list_claim_names(needs_none)) == []


def test_only_the_controlling_owner_is_whom_a_claim_was_made_for() -> None:
    made = world("a")
    made.pod("p", made=["own"])
    made.pod("q", made=["own"])
    claim = made.claim("own", owner="p")
    assert is_made_for(claim, [made.get(Pod, "p").metadata.uid])
    assert not is_made_for(claim, [made.get(Pod, "q").metadata.uid])
    assert not is_made_for(made.claim("other"), [made.get(Pod, "p").metadata.uid])
