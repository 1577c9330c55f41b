"""The watcher sees every double, however short, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.double_watch import Ledger, read_devices


def claim(uid: str, *devices: str, pool: str = "node-a", **result: Any) -> dict[str, Any]:
    results = [{"driver": "gpu.nvidia.com", "pool": pool, "device": device, **result} for device in devices]
    return {
        "metadata": {"uid": uid, "namespace": "e2e", "name": f"claim-{uid}", "resourceVersion": "7"},
        "status": {"allocation": {"devices": {"results": results}}} if devices else {},
    }


def note(ledger: Ledger, *bodies: dict[str, Any], is_gone: bool = False) -> Ledger:
    for body in bodies:
        ledger.note(body, is_gone=is_gone, now_s=1.0)
    return ledger


def test_a_device_in_two_claims_is_told_once_with_both_names() -> None:
    ledger = note(Ledger(), claim("a", "gpu-0", "gpu-1"), claim("b", "gpu-1"), claim("b", "gpu-1"))
    assert ledger.doubles == ["gpu.nvidia.com/node-a/gpu-1 in e2e/claim-a and e2e/claim-b at 7"]


def test_a_double_that_lasted_one_event_stays_told() -> None:
    ledger = note(Ledger(), claim("a", "gpu-0"), claim("b", "gpu-0"), claim("a"))
    assert len(ledger.doubles) == 1


def test_a_device_that_changed_hands_is_no_double() -> None:
    ledger = note(Ledger(), claim("a", "gpu-0"), claim("a"), claim("b", "gpu-0"))
    note(ledger, claim("b", "gpu-0"), is_gone=True)
    note(ledger, claim("c", "gpu-0"))
    assert (ledger.doubles, ledger.allocations) == ([], 3)


def test_devices_of_one_name_on_two_nodes_are_two() -> None:
    assert note(Ledger(), claim("a", "gpu-0"), claim("b", "gpu-0", pool="node-b")).doubles == []


def test_a_claim_that_moves_gives_its_old_devices_back() -> None:
    ledger = note(Ledger(), claim("a", "gpu-0"), claim("a", "gpu-1"), claim("b", "gpu-0"))
    assert (ledger.doubles, ledger.allocations) == ([], 3)


def test_a_list_forgets_what_went_unseen() -> None:
    ledger = note(Ledger(), claim("a", "gpu-0"))
    ledger.keep_only(frozenset())
    assert note(ledger, claim("b", "gpu-0")).doubles == []


@pytest.mark.parametrize(
    "field", [pytest.param({"adminAccess": True}, id="admin access"), pytest.param({"shareID": "x"}, id="a share")]
)
def test_what_takes_nothing_whole_is_left_out(field: dict[str, Any]) -> None:
    assert read_devices(claim("a", "gpu-0", **field)) == frozenset()


def test_the_moment_of_an_allocation_is_that_of_its_first_sight() -> None:
    ledger = Ledger()
    ledger.note(claim("a", "gpu-0"), is_gone=False, now_s=3.0)
    ledger.note(claim("a", "gpu-0"), is_gone=False, now_s=4.0)
    assert ledger.allocated_at == {"a": 3.0}
    ledger.note(claim("a"), is_gone=False, now_s=5.0)
    assert ledger.allocated_at == {}
