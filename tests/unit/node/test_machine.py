"""When the machine is read again, and what is made of a pass."""

from __future__ import annotations

import threading

import pytest

from driver.errors import NvmlError
from driver.node.machine import MAX_RETRY_S, RESCAN_S, MachineWatch, Pass, choose_wait_s
from driver.nvml.readings import MachineReading
from tests.unit.node.readings import failure, machine

NOT_LOADED = NvmlError("nvmlInit", 9, "DRIVER_NOT_LOADED")


@pytest.mark.parametrize(
    ("seen", "failed", "wait_s"),
    [
        pytest.param(Pass(reading=machine(0, 1)), 0, RESCAN_S, id="all is well: rarely"),
        pytest.param(Pass(reading=None, error=NOT_LOADED), 0, 1.0, id="no NVML: in a second"),
        pytest.param(Pass(reading=None, error=NOT_LOADED), 3, 8.0, id="still no NVML: less often"),
        pytest.param(Pass(reading=None, error=NOT_LOADED), 10_000, MAX_RETRY_S, id="no NVML for hours: every half minute"),
        pytest.param(Pass(reading=machine(0, failures=(failure(1),))), 0, 1.0, id="one GPU failed: in a second"),
        pytest.param(Pass(reading=machine()), 2, 4.0, id="no GPU: the driver may still be on its way"),
    ],
)
def test_the_next_pass_comes_soon_after_trouble_and_rarely_otherwise(seen: Pass, failed: int, wait_s: float) -> None:
    """Doubling up to half a minute, else five minutes."""
    assert choose_wait_s(seen, failed) == wait_s


class Script:
    """A machine that answers what it was told to, then the last thing again."""

    def __init__(self, *answers: MachineReading | NvmlError) -> None:
        self.answers = list(answers)

    def read(self) -> MachineReading:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, NvmlError):
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


def test_a_library_that_does_not_answer_is_a_pass_with_its_error() -> None:
    """Nothing is raised into the thread, and the next pass comes by itself."""
    passes = Passes()
    watch = MachineWatch(Script(NOT_LOADED, machine(0)), passes)
    watch.start()
    first, second = passes.wait(2)[:2]
    watch.stop()
    assert first == Pass(reading=None, error=NOT_LOADED)
    assert second == Pass(reading=machine(0))


def test_a_wake_makes_a_pass_at_once() -> None:
    """SIGHUP does not wait for the five minutes."""
    passes = Passes()
    watch = MachineWatch(Script(machine(0)), passes)
    watch.start()
    passes.wait(1)
    watch.wake()
    assert len(passes.wait(2)) == 2
    watch.stop()
