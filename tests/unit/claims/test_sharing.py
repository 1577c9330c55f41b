"""Sharing among the steps of a claim: recorded before, taken back after, whoever dies in between."""

from __future__ import annotations

import contextlib
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from driver.errors import DeviceNotReady
from tests.fakes.claims import Call, Killed, Node, claim, config, device, prepare_one, ref, result, uid, unprepare_one

GPU_CONFIG = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"}
MPS = {**GPU_CONFIG, "sharing": {"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "10Gi"}}}
LONG = {**GPU_CONFIG, "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}}
SHORT = {**GPU_CONFIG, "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Short"}}}
PREPARE = [
    "prepare:metadata",
    "prepare:record-PrepareStarted",
    "prepare:sharing",
    "prepare:record-PrepareCompleted",
    "prepare:cdi-file",
    "prepare:done",
]
UNPREPARE = [
    "unprepare:record-UnprepareStarted",
    "unprepare:delete-cdi-file",
    "unprepare:delete-metadata",
    "unprepare:release-sharing",
    "unprepare:delete-record",
    "unprepare:done",
]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with a claim that shares one GPU by MPS."""
    made = Node(tmp_path)
    made.api.put(claim(ref(1), [result(0)], [config(MPS)]))
    return made


def record_of(node: Node, number: int) -> dict[str, Any]:
    return node.records()[uid(number)]


def test_what_is_to_be_set_is_recorded_before_it_is_set(node: Node) -> None:
    preparer = node.start()
    assert not isinstance(prepare_one(preparer, 1), Exception)
    assert node.steps == PREPARE
    (recorded,) = record_of(node, 1)["devices"]
    assert recorded["sharing"] == {"isExclusiveProcess": True, "mps": {"daemon": "config-0", "memoryMib": 10240}}
    assert node.sharing.applied[uid(1)].state.value == "PrepareStarted"
    assert node.sharing.kept == [uid(1)]


def test_the_grant_goes_before_what_was_set_and_the_record_last(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    node.steps.clear()
    assert unprepare_one(preparer, 1) is None
    assert node.steps == UNPREPARE
    assert (node.sharing.applied, node.records(), node.granted()) == ({}, {}, set())


def test_a_plain_claim_takes_no_step_for_it(node: Node) -> None:
    node.api.put(claim(ref(2), [result(1)], [config(GPU_CONFIG)]))
    preparer = node.start()
    prepare_one(preparer, 2)
    unprepare_one(preparer, 2)
    assert not any("sharing" in step for step in node.steps)
    assert node.sharing.applied == {}


@pytest.mark.parametrize("step", PREPARE)
def test_after_a_kill_at_any_step_of_prepare_the_next_prepare_is_whole(node: Node, step: str) -> None:
    node.kill_at = step
    with pytest.raises(Killed):
        node.start().work.prepare(ref(1), Call())
    preparer = node.start()
    answer = prepare_one(preparer, 1)
    assert not isinstance(answer, Exception)
    assert node.states() == {uid(1): "PrepareCompleted"}
    assert set(node.sharing.applied) == {uid(1)}
    assert unprepare_one(preparer, 1) is None
    assert (node.sharing.applied, node.records(), node.granted()) == ({}, {}, set())


@pytest.mark.parametrize(("prepare_step", "step"), list(itertools.product(["", *PREPARE[2:4]], UNPREPARE)))
def test_after_a_kill_at_any_step_of_unprepare_the_next_one_ends_it(node: Node, prepare_step: str, step: str) -> None:
    """Also of a claim that was only half prepared."""
    node.kill_at = prepare_step or None
    with contextlib.suppress(Killed):
        node.start().work.prepare(ref(1), Call())
    node.kill_at = step
    with pytest.raises(Killed):
        node.start().work.unprepare(ref(1), Call().deadline())
    assert unprepare_one(node.start(), 1) is None
    assert (node.sharing.applied, node.records(), node.granted()) == ({}, {}, set())


def test_a_refusal_leaves_a_record_that_the_next_call_undoes(node: Node) -> None:
    preparer = node.start()
    node.sharing.refusals = [DeviceNotReady("the daemon does not come up")]
    assert isinstance(prepare_one(preparer, 1), DeviceNotReady)
    assert node.states() == {uid(1): "PrepareStarted"}
    assert node.granted() == set()
    assert not isinstance(prepare_one(preparer, 1), Exception)
    assert node.steps.count("unprepare:release-sharing") == 1


def test_what_cannot_be_taken_back_keeps_the_record(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    node.sharing.refusals = [DeviceNotReady("IN_USE")] * 2
    for _ in range(2):
        assert isinstance(unprepare_one(preparer, 1), DeviceNotReady)
    assert node.states() == {uid(1): "UnprepareStarted"}
    assert unprepare_one(preparer, 1) is None


def test_b61_configs_by_source_and_request_reach_their_own_devices(node: Node) -> None:
    """B61: an empty list is all requests; the claim's config beats the class's."""
    configs = [config(LONG, "FromClass"), config(MPS, "FromClaim", ["b"])]
    node.api.put(claim(ref(2), [result(1, "a"), result(2, "b")], configs))
    prepare_one(node.start(), 2)
    first, second = (each.get("sharing") for each in record_of(node, 2)["devices"])
    assert (first, second) == (
        {"timeSlice": 3},
        {"isExclusiveProcess": True, "mps": {"daemon": "config-1", "memoryMib": 10240}},
    )


def test_a_repair_at_start_looks_after_daemons_again_and_ends_strays(node: Node) -> None:
    prepare_one(node.start(), 1)
    node.sharing.kept.clear()
    preparer = node.start()
    preparer.repair()
    assert (node.sharing.kept, node.sharing.swept) == ([uid(1)], 1)


def test_r24_after_a_reboot_everything_is_set_again(node: Node) -> None:
    prepare_one(node.start(), 1)
    node.sharing.applied.clear()
    node.reboot()
    node.start().repair()
    assert set(node.sharing.applied) == {uid(1)}


def test_two_shares_of_a_gpu_with_two_time_slices_exclude_each_other(node: Node) -> None:
    shares = [str(uid(900 + number)) for number in range(3)]
    for number, parameters in ((2, LONG), (3, LONG), (4, SHORT)):
        share = result(1, share_id=shares[number - 2], consumed_capacity={"memory": "1Gi"})
        node.api.put(claim(ref(number), [share], [config(parameters)]))
    preparer = node.start()
    for number in (2, 3):
        assert not isinstance(prepare_one(preparer, number), Exception)
    error = prepare_one(preparer, 4)
    assert "it has the time slice Long, and a GPU has one for all its shares" in str(error)
    assert device(1) in str(error)


def test_a_share_knows_its_part_after_a_restart(node: Node) -> None:
    share = result(1, share_id=str(uid(900)), consumed_capacity={"memory": "20Gi"})
    node.api.put(claim(ref(2), [share]))
    prepare_one(node.start(), 2)
    (recorded,) = record_of(node, 2)["devices"]
    assert recorded["consumedBytes"] == 20 * 1024**3
    spec = json.loads(node.cdi_path(2).read_text())
    (edits,) = [each["containerEdits"] for each in spec["devices"]]
    assert f"GPU_DRA_SHARE_BYTES_0000_11_00_0={20 * 1024**3}" in edits["env"]
