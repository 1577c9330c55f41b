"""Repairs when they are asked for, clean-ups now and then: neither keeps the other from its turn."""

from __future__ import annotations

import threading
from collections.abc import Callable

from driver.errors import StateUnwritable
from driver.node.upkeep import Upkeep


class Work:
    """Counts its calls; each raises ``error``, if there is one, and then calls ``after``."""

    def __init__(self, error: Exception | None = None) -> None:
        self.after: Callable[[], None] = lambda: None
        self._error = error
        self._count = 0
        self._changed = threading.Condition()

    def __call__(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()
        self.after()
        if self._error is not None:
            raise self._error

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._count >= count, 10)

    def count(self) -> int:
        with self._changed:
            return self._count


def test_a_repair_is_made_when_it_is_asked_for_and_a_clean_up_is_not() -> None:
    """Asking wakes the thread; the clean-up's time has not come."""
    repair, clean_up = Work(), Work()
    upkeep = Upkeep(repair, clean_up, lambda: 3600.0)
    upkeep.start()
    for count in (1, 2):
        upkeep.repair_soon()
        repair.wait(count)
    upkeep.stop()
    assert clean_up.count() == 0


def test_repairs_without_end_do_not_put_the_clean_up_off() -> None:
    """Every pass over the machine asks for a repair, and passes are nearer to each other than clean-ups (B04, B05)."""
    repair, clean_up = Work(), Work()
    upkeep = Upkeep(repair, clean_up, lambda: 0.05)
    repair.after = upkeep.repair_soon
    upkeep.start()
    upkeep.repair_soon()
    clean_up.wait(2)
    upkeep.stop()
    assert repair.count() > 2


def test_work_that_fails_is_tried_again() -> None:
    """An error of ours or one that nobody expected: the thread is there for the next pass."""
    repair, clean_up = Work(StateUnwritable("the disk is full")), Work(ZeroDivisionError("a bug"))
    upkeep = Upkeep(repair, clean_up, lambda: 0.01)
    upkeep.start()
    for count in (1, 2):
        upkeep.repair_soon()
        repair.wait(count)
        clean_up.wait(2 * count)
    upkeep.stop()
