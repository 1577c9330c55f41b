"""Many claims in one call: each gets its own answer (B15, B48, B59)."""

from __future__ import annotations

import pytest

from driver.claims.model import ClaimRef
from driver.errors import (
    ClaimNotFound,
    ClaimReplaced,
    ConfigInvalid,
    DeviceInUse,
    DeviceNotReady,
    DriverError,
    ForeignPool,
    UnknownDevice,
)
from driver.names import ClaimUID
from tests.fakes.claims import Call, Node, claim, config, device, prepare_one, ref, result, uid
from tests.unit.claims.situations import answer


def test_b59_each_claim_of_a_call_gets_its_own_answer_and_good_ones_are_prepared(node: Node) -> None:
    """B59: one bad claim never fails its neighbours; every claim asked has an entry."""
    prepare_one(node.start(), 7)
    node.api.put(
        claim(ref(11), [result(9)]),
        claim(ref(12), [result(0, driver="dra.net")]),
        claim(ClaimRef(namespace="default", name="claim-13", uid=uid(99)), [result(3)]),
        claim(ref(14), []),
        claim(ref(15), [result(7)]),
        claim(ref(16), [result(4)], [config({"kind": "GpuConfig"})]),
        claim(ref(17), [result(5, pool="node-b")]),
    )
    asked = [1, 11, 12, 13, 14, 15, 16, 17, 18, 2]
    answers = node.start().prepare([ref(n) for n in asked], Call())
    assert list(answers) == [uid(n) for n in asked]
    good = {n: each for n in asked if not isinstance(each := answers[uid(n)], DriverError)}
    assert good == {1: answer(1, 1), 12: (), 14: (), 2: answer(2, 2)}
    assert {n: type(answers[uid(n)]) for n in asked if n not in good} == {
        11: UnknownDevice,
        13: ClaimReplaced,
        15: DeviceInUse,
        16: ConfigInvalid,
        17: ForeignPool,
        18: ClaimNotFound,
    }
    assert set(node.states()) == {uid(1), uid(2), uid(7)}
    assert set(node.cdi_files()) == {node.cdi_path(n).name for n in (1, 2, 7)}


def test_an_empty_call_has_an_empty_answer(node: Node) -> None:
    assert node.start().prepare([], Call()) == {}
    assert node.start().unprepare([], Call()) == {}


def test_b15_only_our_part_of_a_claim_of_several_drivers_is_prepared(node: Node) -> None:
    node.api.put(claim(ref(1), [result(0, "nic", driver="dra.net", pool="x", device="nic-7"), result(1)]))
    assert prepare_one(node.start(), 1) == answer(1, 1)
    assert [each["device"] for each in node.records()[uid(1)]["devices"]] == [device(1)]


@pytest.mark.parametrize("text", ["../../../etc/cron.d/x", "", "a/b", uid(1).upper().replace("0", "A", 1), f"{uid(1)}\n"])
def test_a_uid_that_is_none_is_an_error_and_touches_no_file(node: Node, text: str) -> None:
    preparer = node.start()
    bad = ClaimRef(namespace="default", name="claim-1", uid=ClaimUID(text))
    for answers in (preparer.prepare([bad], Call()), preparer.unprepare([bad], Call())):
        assert "is no claim uid" in str(answers[bad.uid])
    assert node.leftovers() == []


@pytest.mark.parametrize("missing", ["nvidia1", "nvidiactl", "nvidia-uvm"])
def test_b48_a_missing_device_node_is_named_and_never_remembered(node: Node, missing: str) -> None:
    """B48: after it came back the next prepare works, and nothing half done was left in between."""
    preparer = node.start()
    node.host.missing.add(missing)
    refused = prepare_one(preparer, 1)
    assert isinstance(refused, DeviceNotReady)
    assert f"/dev/{missing}" in str(refused)
    assert (node.states(), node.cdi_files()) == ({}, {})
    node.host.missing.clear()
    assert prepare_one(preparer, 1) == answer(1, 1)


def test_a_claim_that_cannot_be_granted_holds_nothing(node: Node) -> None:
    preparer = node.start()
    node.host.missing.add("nvidia1")
    prepare_one(preparer, 1)
    node.host.missing.clear()
    node.api.put(claim(ref(2), [result(1)]))
    assert prepare_one(preparer, 2) == answer(2, 1)


def test_a_failed_first_prepare_leaves_no_lock_file(node: Node) -> None:
    assert isinstance(prepare_one(node.start(), 50), ClaimNotFound)
    assert node.leftovers() == []
