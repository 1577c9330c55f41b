"""A claim of MIG devices, killed at every step and refused at every call: nothing is made twice, nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.errors import ClaimError
from driver.nvml.calls import NVML_CALLS
from driver.nvml.mock.faults import CallFails
from tests.fakes.claims import Call, Killed, prepare_one, ref, unprepare_one
from tests.fakes.mig_claims import GPU, MigNode
from tests.unit.claims.two_mig_devices import MADE, ONE, OTHER, prepared, put


@pytest.fixture
def node(tmp_path: Path) -> MigNode:
    return MigNode(tmp_path)


PREPARE_STEPS = [
    "prepare:record-PrepareStarted",
    "prepare:mig",
    "prepare:mig-mode-on",
    "prepare:gpu-instance",
    "prepare:compute-instance",
    "prepare:metadata",
    "prepare:record-PrepareCompleted",
    "prepare:cdi-file",
    "prepare:done",
]
UNPREPARE_STEPS = [
    "unprepare:record-UnprepareStarted",
    "unprepare:delete-cdi-file",
    "unprepare:delete-metadata",
    "unprepare:remove-mig",
    "unprepare:destroy-compute-instance",
    "unprepare:destroy-gpu-instance",
    "unprepare:mig-mode-off",
    "unprepare:delete-record",
    "unprepare:done",
]


def test_the_steps_in_their_order(node: MigNode) -> None:
    """Recorded before anything is made; the grant goes before the hardware, the record last."""
    put(node, 1, ONE)
    preparer = node.start()
    prepare_one(preparer, 1)
    unprepare_one(preparer, 1)
    assert node.steps == PREPARE_STEPS + UNPREPARE_STEPS


@pytest.mark.parametrize("step", PREPARE_STEPS)
def test_killed_in_prepare_the_next_try_finishes(node: MigNode, step: str) -> None:
    put(node, 1, ONE)
    preparer = node.start()
    node.kill_at = step
    with pytest.raises(Killed):
        preparer.work.prepare(ref(1), Call())
    again = node.start()
    again.repair()
    (device,) = prepared(again, 1)
    assert device.device == ONE
    assert node.instances() == [MADE]
    assert node.granted() == set(device.cdi_device_ids)
    assert unprepare_one(again, 1) is None
    assert (node.instances(), node.divided(), node.leftovers()) == ([], [], [])


@pytest.mark.parametrize("step", PREPARE_STEPS)
def test_killed_in_prepare_an_unprepare_takes_it_all_back(node: MigNode, step: str) -> None:
    """Half-made instances too: a GPU instance without its compute instance (#1452)."""
    put(node, 1, ONE)
    preparer = node.start()
    node.kill_at = step
    with pytest.raises(Killed):
        preparer.work.prepare(ref(1), Call())
    again = node.start()
    assert unprepare_one(again, 1) is None
    assert (node.instances(), node.divided(), node.leftovers()) == ([], [], [])


@pytest.mark.parametrize("step", UNPREPARE_STEPS)
def test_killed_in_unprepare_the_next_one_finishes(node: MigNode, step: str) -> None:
    put(node, 1, ONE)
    prepare_one(node.start(), 1)
    preparer = node.start()
    node.kill_at = step
    with pytest.raises(Killed):
        preparer.work.unprepare(ref(1), Call().deadline())
    again = node.start()
    again.repair()
    assert unprepare_one(again, 1) is None
    assert (node.instances(), node.divided(), node.leftovers()) == ([], [], [])


@pytest.mark.parametrize("step", [*PREPARE_STEPS, *UNPREPARE_STEPS])
def test_a_neighbour_on_the_same_gpu_keeps_its_instance_wherever_the_process_dies(node: MigNode, step: str) -> None:
    put(node, 1, ONE)
    put(node, 2, OTHER)
    prepare_one(node.start(), 2)
    preparer = node.start()
    node.kill_at = step
    if step in PREPARE_STEPS:
        if step == "prepare:mig-mode-on":
            pytest.skip("the neighbour has it on already")
        with pytest.raises(Killed):
            preparer.work.prepare(ref(1), Call())
    else:
        prepare_one(preparer, 1)
        if step == "unprepare:mig-mode-off":
            pytest.skip("the neighbour needs it")
        with pytest.raises(Killed):
            preparer.work.unprepare(ref(1), Call().deadline())
    again = node.start()
    unprepare_one(again, 1)
    assert node.instances() == [(GPU, 19, 0, 1)]
    assert node.divided() == [GPU]


def known_calls() -> list[str]:
    words = ("Mig", "GpuInstance", "ComputeInstance")
    return sorted({call for call in NVML_CALLS.values() if any(word in call for word in words)})


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("call", known_calls())
def test_each_call_that_fails_for_a_while_delays_and_leaves_nothing(node: MigNode, call: str, times: int) -> None:
    """Whichever it is, and however often: tries go on, and in the end all is made, then all is gone."""
    put(node, 1, ONE)
    preparer = node.start()
    catalog = node.read()
    node.read = lambda: catalog  # type: ignore[method-assign]  # the machine was read before the trouble
    node.play(CallFails(call=call, code="UNKNOWN", times=times))
    for _ in range(2 * times + 2):
        answer = prepare_one(preparer, 1)
        if not isinstance(answer, ClaimError):
            break
    assert not isinstance(answer, ClaimError), answer
    node.play()
    assert node.instances() == [MADE]
    node.play(CallFails(call=call, code="UNKNOWN", times=times))
    for _ in range(2 * times + 2):
        if unprepare_one(preparer, 1) is None:
            break
    node.play()
    preparer.repair()
    assert (node.instances(), node.divided(), node.leftovers()) == ([], [], [])
