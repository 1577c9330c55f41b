"""Which claims would climb over the fence."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.controller.acting.fence_climbers import find_climbers, tell_climbers
from driver.controller.objects.model import Allocation, Claim, ClaimStatus, Meta
from tests.e2e.fence_cases import CASES, Case, Json, exactly
from tests.unit.controller.desk import Desk, Recorder


def claim(requests: list[Json], *, is_allocated: bool = False, **devices: object) -> Claim:
    spec = {"devices": {"requests": requests, **devices}}
    status = ClaimStatus(allocation=Allocation() if is_allocated else None)
    return Claim(metadata=Meta(name="one", namespace="team"), spec=msgspec.Raw(msgspec.json.encode(spec)), status=status)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_claim_climbs_as_the_table_says(case: Case) -> None:
    assert bool(find_climbers([claim(case.requests)])) is case.climbs


def test_a_climber_is_named_with_what_to_write_instead() -> None:
    climbing = exactly({"operator": "Exists"})
    requests = [{**climbing[0], "name": name} for name in ("a", "b")] + exactly()
    (found,) = find_climbers([claim(exactly()), claim(requests)])
    assert found.requests == ("a", "b")
    assert "request a, b tolerates gpu.nvidia.com/allocator" in found.text
    assert "topology.gpu.nvidia.com" in found.text


def test_an_allocated_claim_is_left_in_peace() -> None:
    assert find_climbers([claim(exactly({"operator": "Exists"}), is_allocated=True)]) == ()


def test_fields_of_a_newer_kubernetes_do_not_hide_a_climber() -> None:
    """The spec is not ours to allocate then, but kube-scheduler may."""
    assert find_climbers([claim([{**exactly({"operator": "Exists"})[0], "newField": 1}], alsoNew={})])


def test_a_new_leader_tells_of_claims_that_are_older_than_the_policy() -> None:
    """R21: an event on each, once, and what it looked at is decided as ever."""
    desk = Desk()
    desk.add_node("node-a")
    desk.add_claim("climbs", tolerations=[{"operator": "Exists"}])
    desk.add_claim("plain")
    desk.run()
    desk.advance(3)
    (told,) = desk.recorder.notes("ResourceClaim climbs", "FenceTolerated")
    assert told.startswith("request gpus tolerates gpu.nvidia.com/allocator")
    assert desk.recorder.notes("ResourceClaim plain", "FenceTolerated") == []


def test_a_cluster_full_of_them_gets_a_hundred_events() -> None:
    recorder = Recorder()
    tell_climbers([claim(exactly({"operator": "Exists"}))] * 150, recorder)
    assert len(recorder.told) == 100


@settings(max_examples=50)
@given(st.binary(max_size=60))
def test_no_spec_breaks_the_search(data: bytes) -> None:
    broken = Claim(metadata=Meta(name="one"), spec=msgspec.Raw(data))
    assert find_climbers([broken, claim(exactly({"operator": "Exists"}))])
