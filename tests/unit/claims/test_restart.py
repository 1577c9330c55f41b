"""The plugin dies before each step of prepare and unprepare; whatever happens next ends as if it had not.

For each step: what is on disk then, and what becomes of it when the claim is prepared again, is unprepared, or when the plugin
just starts again and repairs. A kill between two steps is a kill before the second; one inside of a step leaves a temporary
file at most, which is tested with the files themselves.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from driver.claims.prepare import ClaimPreparer
from driver.errors import DeviceInUse
from driver.names import CDIDeviceID
from tests.fakes.claims import Call, Killed, Node, claim, device, prepare_one, ref, result, uid, unprepare_one
from tests.unit.claims.situations import answer

PREPARE_STEPS = ["prepare:metadata", "prepare:record-PrepareCompleted", "prepare:cdi-file", "prepare:done"]
UNPREPARE_STEPS = [
    "unprepare:record-UnprepareStarted",
    "unprepare:delete-cdi-file",
    "unprepare:delete-metadata",
    "unprepare:delete-record",
    "unprepare:done",
]


@pytest.fixture(params=[False, True], ids=["plain", "with metadata"])
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Node:
    made = Node(tmp_path, has_metadata=request.param)
    made.api.put(claim(ref(1), [result(1)]), claim(ref(2), [result(1)]), claim(ref(3), [result(3)]))
    return made


def die_preparing(node: Node, step: str) -> None:
    preparer = node.start()
    node.kill_at = step
    with pytest.raises(Killed):
        preparer.work.prepare(ref(1), Call())


def die_unpreparing(node: Node, step: str) -> None:
    preparer = node.start()
    assert prepare_one(preparer, 1) == expected(node)
    node.kill_at = step
    with pytest.raises(Killed):
        preparer.work.unprepare(ref(1), Call().deadline())


def expected(node: Node) -> object:
    """What claim 1 is answered on this node, always."""
    if not node.has_metadata:
        return answer(1, 1)
    (only,) = answer(1, 1)
    extra = CDIDeviceID(f"gpu.nvidia.com/metadata={uid(1)}_gpus")
    return (replace(only, cdi_device_ids=(*only.cdi_device_ids, extra)),)


def all_granted(node: Node, given: object) -> bool:
    """B51: every id that was answered resolves at the time of the answer."""
    assert isinstance(given, tuple)
    return {each for one in given for each in one.cdi_device_ids} <= node.granted()


def released(node: Node, preparer: ClaimPreparer) -> bool:
    """Nothing is left of claim 1, and its device goes to the next claim."""
    assert uid(1) not in node.states()
    assert not [name for name in node.leftovers() if uid(1) in name or "claim-1" in name]
    return prepare_one(preparer, 2) not in (None, ()) and uid(2) in node.states()


def state_after_prepare_died(step: str) -> dict[str, str]:
    return {} if step in PREPARE_STEPS[:2] else {uid(1): "PrepareCompleted"}


def state_after_unprepare_died(step: str) -> dict[str, str]:
    if step == UNPREPARE_STEPS[0]:
        return {uid(1): "PrepareCompleted"}
    return {} if step == "unprepare:done" else {uid(1): "UnprepareStarted"}


@pytest.mark.parametrize("step", PREPARE_STEPS)
class TestKilledInPrepare:
    """B04: the plugin dies before this step of a prepare."""

    def test_a_repeat_ends_in_the_one_answer(self, node: Node, step: str) -> None:
        die_preparing(node, step)
        assert node.states() == state_after_prepare_died(step)
        preparer = node.start()
        given = prepare_one(preparer, 1)
        assert given == expected(node)
        assert all_granted(node, given)
        assert node.states() == {uid(1): "PrepareCompleted"}
        assert prepare_one(preparer, 1) == given

    def test_an_unprepare_leaves_nothing(self, node: Node, step: str) -> None:
        die_preparing(node, step)
        preparer = node.start()
        assert unprepare_one(preparer, 1) is None
        assert released(node, preparer)

    def test_a_restart_alone_completes_what_was_recorded(self, node: Node, step: str) -> None:
        die_preparing(node, step)
        node.start().repair()
        assert node.states() == state_after_prepare_died(step)
        assert node.cdi_path(1).exists() == bool(node.states())

    def test_an_unprepare_after_restart_and_repair_leaves_nothing(self, node: Node, step: str) -> None:
        die_preparing(node, step)
        preparer = node.start()
        preparer.repair()
        assert unprepare_one(preparer, 1) is None
        assert released(node, preparer)

    def test_another_claim_gets_the_device_only_where_nothing_was_recorded(self, node: Node, step: str) -> None:
        die_preparing(node, step)
        given = prepare_one(node.start(), 2)
        assert isinstance(given, DeviceInUse) == bool(state_after_prepare_died(step))


@pytest.mark.parametrize("step", UNPREPARE_STEPS)
class TestKilledInUnprepare:
    """R11: the plugin dies before this step of an unprepare."""

    def test_a_repeat_leaves_nothing(self, node: Node, step: str) -> None:
        die_unpreparing(node, step)
        assert node.states() == state_after_unprepare_died(step)
        preparer = node.start()
        assert unprepare_one(preparer, 1) is None
        assert released(node, preparer)

    def test_the_device_is_held_as_long_as_a_record_or_a_grant_is_there(self, node: Node, step: str) -> None:
        die_unpreparing(node, step)
        is_held = bool(node.states())
        assert is_held or not node.cdi_path(1).exists()
        assert isinstance(prepare_one(node.start(), 2), DeviceInUse) == is_held

    def test_a_restart_never_grants_again_what_is_being_released(self, node: Node, step: str) -> None:
        die_unpreparing(node, step)
        had_grant = node.cdi_path(1).exists()
        node.start().repair()
        assert node.states() == state_after_unprepare_died(step)
        assert node.cdi_path(1).exists() == had_grant

    def test_a_prepare_finishes_the_unprepare_first(self, node: Node, step: str) -> None:
        die_unpreparing(node, step)
        preparer = node.start()
        preparer.repair()
        given = prepare_one(preparer, 1)
        assert given == expected(node)
        assert all_granted(node, given)
        assert unprepare_one(preparer, 1) is None
        assert released(node, preparer)

    def test_claims_of_other_devices_are_not_touched(self, node: Node, step: str) -> None:
        prepare_one(node.start(), 3)
        before = node.cdi_path(3).read_bytes()
        die_unpreparing(node, step)
        node.start().repair()
        assert node.cdi_path(3).read_bytes() == before
        assert node.records()[uid(3)]["devices"][0]["device"] == device(3)


@pytest.mark.parametrize("second", PREPARE_STEPS + UNPREPARE_STEPS)
@pytest.mark.parametrize("first", PREPARE_STEPS)
def test_two_kills_in_a_row_end_as_none(tmp_path: Path, first: str, second: str) -> None:
    node = Node(tmp_path)
    node.api.put(claim(ref(1), [result(1)]), claim(ref(2), [result(1)]))
    die_preparing(node, first)
    preparer = node.start()
    node.kill_at = second
    try:
        preparer.work.prepare(ref(1), Call())
        preparer.work.unprepare(ref(1), Call().deadline())
    except Killed:
        pass
    node.kill_at = None
    preparer = node.start()
    preparer.repair()
    assert unprepare_one(preparer, 1) is None
    assert released(node, preparer)
