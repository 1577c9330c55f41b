"""Claims whose object is gone are released, and only when it is certain."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from driver.claims.cleanup import GONE_FOR_S, Cleanup
from driver.claims.model import ClaimRef
from driver.claims.prepare import ClaimPreparer
from driver.errors import DeviceInUse
from tests.fakes.claims import Node, claim, prepare_one, ref, result, uid
from tests.unit.claims.situations import answer, set_state


class Situation:
    """A node where claim 1 is prepared, its object deleted, and a clean-up with a clock of the test's."""

    def __init__(self, folder: Path) -> None:
        self.node = Node(folder / "node")
        self.node.api.put(claim(ref(1), [result(1)]), claim(ref(2), [result(1)]), claim(ref(3), [result(3)]))
        self.preparer: ClaimPreparer = self.node.start()
        prepare_one(self.preparer, 1)
        prepare_one(self.preparer, 3)
        self.node.api.delete(ref(1))
        self.state = folder / "dra_manager_state"
        self.state.write_bytes(b'{"Data":"..."}')
        self.now_s = 0.0
        self.cleanup = Cleanup(
            work=self.preparer.work, reader=self.node.api, kubelet_state=self.state, now_s=lambda: self.now_s
        )

    def run_after(self, seconds: float) -> tuple[str, ...]:
        self.now_s += seconds
        return self.cleanup.run_pass()


@pytest.fixture
def it(tmp_path: Path) -> Situation:
    return Situation(tmp_path)


def test_b05_a_claim_that_is_gone_in_two_passes_is_released(it: Situation) -> None:
    """B05: completed claims too, not only those that were never finished."""
    assert it.run_after(0) == ()
    assert isinstance(prepare_one(it.preparer, 2), DeviceInUse)
    assert it.run_after(GONE_FOR_S) == (uid(1),)
    assert prepare_one(it.preparer, 2) == answer(2, 1)
    assert uid(3) in it.node.states(), "a claim whose object is there stays"


def test_b05_another_claim_of_the_same_name_does_not_keep_it(it: Situation) -> None:
    it.node.api.put(claim(ClaimRef(namespace="default", name="claim-1", uid=uid(77)), [result(5)]))
    it.run_after(0)
    assert it.run_after(GONE_FOR_S) == (uid(1),)


@pytest.mark.parametrize("where", [None, "another-node"], ids=["not allocated", "allocated on another node"])
def test_a_named_claim_that_has_nothing_here_any_more_is_released(it: Situation, where: str | None) -> None:
    """A kubelet whose state file was removed never asks for its unprepare, and the claim outlives its pods.

    https://github.com/kubernetes/kubernetes/issues/116411
    """
    results = [] if where is None else [msgspec.structs.replace(result(1), pool=where)]
    it.node.api.put(claim(ref(1), results))
    it.run_after(0)
    assert isinstance(prepare_one(it.preparer, 2), DeviceInUse)
    assert it.run_after(GONE_FOR_S) == (uid(1),)
    assert prepare_one(it.preparer, 2) == answer(2, 1)


def test_a_named_claim_that_is_allocated_here_again_starts_over(it: Situation) -> None:
    it.node.api.put(claim(ref(1), []))
    it.run_after(0)
    it.node.api.put(claim(ref(1), [result(1)]))
    assert it.run_after(GONE_FOR_S) == ()
    it.node.api.put(claim(ref(1), []))
    assert it.run_after(GONE_FOR_S) == (), "ten minutes anew"
    assert it.run_after(GONE_FOR_S) == (uid(1),)


@pytest.mark.parametrize("state", ["PrepareStarted", "UnprepareStarted"])
def test_b04_a_half_done_claim_that_is_gone_is_released(it: Situation, state: str) -> None:
    set_state(it.node, 1, state)
    it.run_after(0)
    assert it.run_after(GONE_FOR_S) == (uid(1),)
    assert uid(1) not in it.node.states()
    assert not it.node.cdi_path(1).exists()


def test_passes_too_near_to_each_other_release_nothing(it: Situation) -> None:
    assert [it.run_after(each) for each in (0, 1, GONE_FOR_S - 2)] == [(), (), ()]
    assert it.run_after(1) == (uid(1),)


def test_r10_a_claim_that_the_kubelet_knows_is_kept(it: Situation) -> None:
    """R10: a force-deleted pod's container may run on for long after its claim's object is gone."""
    it.state.write_bytes(b"\x00\xff whatever " + uid(1).encode() + b" more")
    it.run_after(0)
    assert it.run_after(GONE_FOR_S * 5) == ()
    it.state.write_bytes(b"{}")
    assert it.run_after(1) == (), "the ten minutes begin when the kubelet has forgotten it"
    assert it.run_after(GONE_FOR_S) == (uid(1),)


def test_the_api_server_is_not_asked_about_claims_that_the_kubelet_knows(it: Situation) -> None:
    """Thousands of nodes with their claims prepared ask nothing."""
    it.state.write_bytes(uid(1).encode() + uid(3).encode())
    asked = it.node.api.reads
    it.run_after(0)
    assert it.node.api.reads == asked


@pytest.mark.parametrize("how", ["missing", "a folder", "a link"])
def test_r10_while_the_kubelets_state_cannot_be_read_nothing_is_dropped(it: Situation, tmp_path: Path, how: str) -> None:
    it.state.unlink()
    if how == "a folder":
        it.state.mkdir()
    if how == "a link":
        it.state.symlink_to(tmp_path / "nowhere")
    it.run_after(0)
    assert it.run_after(GONE_FOR_S) == ()
    assert uid(1) in it.node.states()


def test_b05_while_the_api_server_cannot_be_asked_nothing_is_dropped(it: Situation) -> None:
    it.node.api.is_down = True
    assert [it.run_after(GONE_FOR_S) for _ in range(3)] == [(), (), ()]
    it.node.api.is_down = False
    assert it.run_after(GONE_FOR_S) == (), "the first pass that could ask"
    assert it.run_after(GONE_FOR_S) == (uid(1),)


def test_a_claim_that_came_back_starts_over(it: Situation) -> None:
    it.run_after(0)
    it.node.api.put(claim(ref(1), [result(1)]))
    it.run_after(GONE_FOR_S)
    it.node.api.delete(ref(1))
    assert it.run_after(1) == ()
    assert it.run_after(GONE_FOR_S) == (uid(1),)


def test_a_corrupt_record_is_looked_up_as_its_cdi_file_names_it(it: Situation) -> None:
    it.node.record_path(1).write_bytes(b"{")
    it.run_after(0)
    assert it.run_after(GONE_FOR_S) == (uid(1),)
    assert not [name for name in it.node.leftovers() if uid(1) in name]


def test_a_corrupt_record_that_nothing_names_is_kept(it: Situation) -> None:
    it.node.record_path(1).write_bytes(b"{")
    it.node.cdi_path(1).unlink()
    it.run_after(0)
    assert it.run_after(GONE_FOR_S) == ()
    assert [name for name in it.node.leftovers() if uid(1) in name]


def test_a_claim_that_cannot_be_released_now_is_tried_again(it: Situation, monkeypatch: pytest.MonkeyPatch) -> None:
    it.run_after(0)
    unlink = os.unlink

    def refuse(path: str) -> None:
        if Path(path).parent == it.node.cdi:
            raise PermissionError(1, "Operation not permitted")
        unlink(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        assert it.run_after(GONE_FOR_S) == ()
    assert it.run_after(1) == (uid(1),)


def test_what_a_killed_process_left_half_written_goes_once_it_is_old(it: Situation) -> None:
    """Not at the next start only: a plugin may run for months."""
    old, young = (
        it.node.plugin / "claims" / ".a.json.0000.tmp",
        it.node.cdi / f".k8s.gpu.nvidia.com-claim_{uid(9)}.json.0000.tmp",
    )
    for path in (old, young):
        path.write_bytes(b"{")
    os.utime(old, (1, 1))
    it.run_after(0)
    assert (old.exists(), young.exists()) == (False, True)


def test_a_lock_folder_that_somebody_removed_comes_back(it: Situation) -> None:
    shutil.rmtree(it.node.plugin / "locks")
    it.run_after(0)
    assert prepare_one(it.preparer, 3) == answer(3, 3)
