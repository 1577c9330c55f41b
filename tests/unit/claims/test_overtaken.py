"""Calls that are over, slow, or overtaken, and disks that are full (B04, B18, R8, R36)."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driver.claims.model import ClaimRef
from driver.claims.prepare import ClaimPreparer
from driver.errors import (
    ClaimBusy,
    ClaimError,
    DriverError,
    StateUnwritable,
)
from tests.fakes.claims import Call, Node, claim, device, prepare_one, ref, result, uid, unprepare_one
from tests.unit.claims.situations import Overtaken, answer, rewrite, set_state


def test_b04_a_started_record_is_undone_and_prepared_afresh(node: Node) -> None:
    first = prepare_one(node.start(), 1)
    set_state(node, 1, "PrepareStarted")
    assert prepare_one(node.start(), 1) == first
    assert node.states() == {uid(1): "PrepareCompleted"}


@pytest.mark.parametrize("state", ["PrepareStarted", "UnprepareStarted"])
def test_b04_a_half_done_record_is_released(node: Node, state: str) -> None:
    prepare_one(node.start(), 1)
    set_state(node, 1, state)
    assert unprepare_one(node.start(), 1) is None
    assert node.leftovers() == []


def test_r8_a_prepare_whose_caller_has_gone_takes_no_effect(node: Node) -> None:
    preparer, call = node.start(), Call()
    call.hang_up()
    assert isinstance(prepare_one(preparer, 1, call), ClaimBusy)
    assert node.leftovers() == []


@pytest.mark.parametrize("step", ["prepare:metadata", "prepare:record-PrepareCompleted", "prepare:cdi-file", "prepare:done"])
@pytest.mark.parametrize("how", ["hang up", "unprepare began"])
def test_r8_a_prepare_that_is_overtaken_at_any_step_undoes_itself(tmp_path: Path, step: str, how: str) -> None:
    call = Call()
    node = Overtaken(tmp_path)
    node.api.put(claim(ref(1), [result(1)]))
    preparer = node.start()

    def overtake() -> None:
        if how == "hang up":
            call.hang_up()
        else:
            preparer.work.ended.add(uid(1))

    node.at[step] = overtake
    assert isinstance(prepare_one(preparer, 1, call), ClaimBusy)
    assert node.leftovers() == []
    assert prepare_one(preparer, 1) == answer(1, 1)


def test_r8_an_unprepare_that_began_in_another_instance_counts(tmp_path: Path) -> None:
    node = Overtaken(tmp_path)
    node.api.put(claim(ref(1), [result(1)]))
    preparer, other = node.start(), node.start()
    node.at["prepare:cdi-file"] = lambda: other.work.ended.add(uid(1))
    assert isinstance(prepare_one(preparer, 1), ClaimBusy)
    assert node.leftovers() == []


def test_r8_a_repeat_of_a_prepared_claim_undoes_nothing(node: Node) -> None:
    preparer, call = node.start(), Call()
    prepare_one(preparer, 1)
    call.hang_up()
    assert isinstance(prepare_one(preparer, 1, call), ClaimBusy)
    assert node.states() == {uid(1): "PrepareCompleted"}
    assert node.cdi_path(1).exists()


def test_b18_one_hung_claim_keeps_neither_its_neighbours_nor_the_answer(tmp_path: Path) -> None:
    """B18, R36: the answer leaves before the call's end; the hung claim is said to be still at work, and where."""
    node, gate = Overtaken(tmp_path), threading.Event()
    node.api.put(*(claim(ref(n), [result(n)]) for n in range(3)))
    preparer = node.start()
    prepare_one(preparer, 0)
    node.at["unprepare:delete-cdi-file"] = lambda: gate.wait(60)
    short = Call(1.1)
    assert isinstance(unprepare_one(preparer, 0, short), ClaimBusy)
    answers = preparer.prepare([ref(0), ref(1), ref(2)], Call(1.6))
    assert (answers[uid(1)], answers[uid(2)]) == (answer(1, 1), answer(2, 2))
    said = str(answers[uid(0)])
    assert "still working" in said or "still held by" in said
    assert "at unprepare:delete-cdi-file" in said
    gate.set()
    assert unprepare_one(preparer, 0) is None


def test_a_call_without_time_left_is_told_to_ask_again(node: Node) -> None:
    assert isinstance(prepare_one(node.start(), 1, Call(0)), ClaimBusy)


def test_a_bug_in_one_claim_is_that_claims_answer(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    preparer = node.start()
    read = node.api.read_claim

    def fail(ref: ClaimRef) -> Any:
        if ref.uid == uid(1):
            raise RuntimeError("a bug")
        return read(ref)

    monkeypatch.setattr(node.api, "read_claim", fail)
    answers = preparer.prepare([ref(1), ref(2)], Call())
    assert str(answers[uid(1)]).startswith("internal error (RuntimeError)")
    assert answers[uid(2)] == answer(2, 2)


def test_devices_in_any_record_are_known(node: Node) -> None:
    """R23: a device that a record holds must not vanish from the slices."""
    preparer = node.start()
    node.api.put(claim(ref(20), [result(4, admin_access=True)]))
    prepare_one(preparer, 1)
    prepare_one(preparer, 20)
    assert preparer.read_held_devices() == {device(1), device(4)}


def test_claim_errors_are_the_claims_own(node: Node) -> None:
    """Whatever goes wrong with a claim is a DriverError in its entry, never an exception of the call."""
    preparer: ClaimPreparer = node.start()
    node.api.is_down = True
    error = prepare_one(preparer, 1)
    assert isinstance(error, DriverError)
    assert not isinstance(error, ClaimError)


def test_r8_a_claim_that_was_prepared_before_is_never_undone_by_a_later_call(tmp_path: Path) -> None:
    """A new epoch prepares afresh; when that call dies, the pod of the earlier one may still run."""
    node, call = Overtaken(tmp_path), Call()
    node.api.put(claim(ref(1), [result(1)]))
    preparer = node.start()
    first = prepare_one(preparer, 1)
    node.epoch = replace(node.epoch, load_marker="inode-2")
    node.at["prepare:done"] = call.hang_up
    assert isinstance(prepare_one(preparer, 1, call), ClaimBusy)
    assert node.states() == {uid(1): "PrepareCompleted"}
    assert node.cdi_path(1).exists()
    assert prepare_one(preparer, 1) == first


def test_r9_a_registration_while_the_api_server_is_asked_means_asking_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    preparer, read = node.start(), node.api.read_claim

    def register_meanwhile(ref: ClaimRef) -> Any:
        found = read(ref)
        preparer.note_registered()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(node.api, "read_claim", register_meanwhile)
        prepare_one(preparer, 1)
    reads = node.api.reads
    prepare_one(preparer, 1)
    assert node.api.reads == reads + 1


def test_a_full_disk_does_not_keep_a_claim_from_ending(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet ends pods to free the disk, and waits for their unprepare."""
    preparer = node.start()
    prepare_one(preparer, 1)

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        for name in ("write", "pwrite"):
            patch.setattr(os, name, full)
        assert isinstance(prepare_one(preparer, 2), StateUnwritable)
        assert unprepare_one(preparer, 1) is None
    assert (node.states(), node.cdi_files()) == ({}, {})
    assert prepare_one(preparer, 2) == answer(2, 2), "no lock was lost either"


def test_unknown_keys_survive_a_rebuild_from_the_cdi_file(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    rewrite(node, 1, later={"x": 1})
    node.cdi_path(1).unlink()
    prepare_one(preparer, 1)
    node.record_path(1).write_bytes(b"{")
    prepare_one(preparer, 1)
    assert node.records()[uid(1)]["later"] == {"x": 1}
