"""When the machine is read again, and what is made of a pass."""

from __future__ import annotations

import threading

import pytest

from driver.errors import NvmlError
from driver.node.machine import HANG_S, MachineWatch, Pass
from driver.nvml.reading_threads import GPU_DEADLINE_S
from driver.nvml.readings import MachineReading
from tests.unit.node.readings import failure, machine

NOT_LOADED = NvmlError("nvmlInit", 9, "DRIVER_NOT_LOADED")
OTHER = NvmlError("nvmlInit", 18, "LIB_RM_VERSION_MISMATCH")


@pytest.mark.parametrize(
    ("seen", "is_whole"),
    [
        pytest.param(Pass(reading=machine(0, 1)), True, id="all is well"),
        pytest.param(Pass(reading=None, error=NOT_LOADED), False, id="no NVML"),
        pytest.param(Pass(reading=machine(0, failures=(failure(1),))), False, id="one GPU failed"),
        pytest.param(Pass(reading=machine()), False, id="no GPU: the driver may still be on its way"),
    ],
)
def test_what_is_missing_is_looked_for_soon(seen: Pass, is_whole: bool) -> None:
    """Else five minutes pass."""
    assert seen.is_whole is is_whole


class Script:
    """A machine that answers what it was told to, then the last thing again."""

    def __init__(self, *answers: MachineReading | Exception) -> None:
        self.answers = list(answers)

    def read(self) -> MachineReading:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Passes:
    """Collects passes; ``wait`` for so many."""

    def __init__(self) -> None:
        self.seen: list[Pass] = []
        self._changed = threading.Condition()

    def __call__(self, seen: Pass) -> bool:
        with self._changed:
            self.seen.append(seen)
            self._changed.notify_all()
        return True

    def wait(self, count: int) -> list[Pass]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= count, 10)
        return self.seen


def refuse_hang(message: str) -> None:
    raise AssertionError(message)


def test_a_library_that_does_not_answer_is_a_pass_with_its_error() -> None:
    """Nothing is raised into the thread, and the next pass comes by itself."""
    passes = Passes()
    watch = MachineWatch(Script(NOT_LOADED, machine(0)), passes, refuse_hang)
    watch.start()
    first, second = passes.wait(2)[:2]
    watch.stop()
    assert first == Pass(reading=None, error=NOT_LOADED)
    assert second == Pass(reading=machine(0))


def test_a_node_without_a_driver_says_so_once_and_each_other_reason_too(caplog: pytest.LogCaptureFixture) -> None:
    """A DaemonSet reaches nodes that never get a driver: a line every half minute for ever is none that anybody reads."""
    passes = Passes()
    watch = MachineWatch(Script(NOT_LOADED, NOT_LOADED, OTHER, machine(0), NOT_LOADED), passes, refuse_hang)
    watch.start()
    for count in range(1, 6):
        passes.wait(count)
        watch.wake()
    watch.stop()
    said = [each for each in caplog.records if each.levelname == "WARNING"]
    assert [each.getMessage() for each in said] == ["NVML does not answer; trying again"] * 3


def test_a_wake_makes_a_pass_at_once() -> None:
    """SIGHUP does not wait for the five minutes."""
    passes = Passes()
    watch = MachineWatch(Script(machine(0)), passes, refuse_hang)
    watch.start()
    passes.wait(1)
    watch.wake()
    assert len(passes.wait(2)) == 2
    watch.stop()


def test_a_pass_that_fails_as_nobody_expected_is_made_again() -> None:
    """A bug in the reading of one machine must not end the looking."""
    passes = Passes()
    watch = MachineWatch(Script(ZeroDivisionError("a bug"), machine(0)), passes, refuse_hang)
    watch.start()
    assert passes.wait(1) == [Pass(reading=machine(0))]
    watch.stop()


class Hanging:
    """A machine whose first pass does not end before ``release``."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def read(self) -> MachineReading:
        assert self.release.wait(30)
        return machine(0)


class Words:
    """Collects what is said of hangs."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.has_said = threading.Event()

    def __call__(self, message: str) -> None:
        self.said.append(message)
        self.has_said.set()


def test_a_pass_that_does_not_end_is_said_once_and_carried_on_when_it_does() -> None:
    """A call that concerns all of NVML hangs: nobody else would tell."""
    hanging, passes, words = Hanging(), Passes(), Words()
    watch = MachineWatch(hanging, passes, words, hang_s=0.05)
    watch.start()
    assert words.has_said.wait(10)
    watch.wake()
    assert passes.seen == []
    assert len(words.said) == 1
    assert words.said[0].startswith("NVML has not come back for 0.05 s from a call that concerns all GPUs")
    hanging.release.set()
    assert passes.wait(1)[0] == Pass(reading=machine(0))
    watch.stop()


def test_a_pass_may_take_the_time_that_its_hung_gpus_take() -> None:
    """Else one GPU that hangs would be said to be all of them."""
    assert HANG_S > 2 * GPU_DEADLINE_S


def test_another_sign_makes_a_pass_before_its_time() -> None:
    """Somebody made a MIG device: the driver's files say so."""
    passes, signs = Passes(), ["gpu0/mig/gi1/ci0"]
    watch = MachineWatch(Script(machine(0)), passes, refuse_hang, read_sign=lambda: signs[0], sign_s=0.01)
    watch.start()
    passes.wait(1)
    signs[0] = ""
    passes.wait(2)
    watch.stop()
    assert len(passes.seen) == 2


def test_a_sign_that_cannot_be_read_does_not_end_the_looking() -> None:
    """A MIG device that is removed while the driver's files are listed takes its folder from under the list."""
    passes, signs = Passes(), ["one", FileNotFoundError("gi3"), "two"]

    def read_sign() -> str:
        sign = signs.pop(0) if len(signs) > 1 else signs[0]
        if isinstance(sign, Exception):
            raise sign
        return str(sign)

    watch = MachineWatch(Script(machine(0)), passes, refuse_hang, read_sign=read_sign, sign_s=0.01)
    watch.start()
    passes.wait(2)
    watch.stop()
