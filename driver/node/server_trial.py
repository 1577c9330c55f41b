"""What this API server keeps of a slice, found out by one that is only tried (dry run), and the answer remembered.

An older server takes a slice and stores it without what it does not know, so it is asked before anything is published that
relies on it. An answer holds; a refusal is asked about again after some minutes, since clusters are upgraded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import CounterSet, Device, ResourcePool, ResourceSlice, ResourceSliceSpec
from driver.resourceslice.diff import PoolIdentity, build_generate_name

T = TypeVar("T")


class Remembered(Generic[T]):
    """An answer of the server's, asked for once, and again where it was a refusal and has grown old."""

    def __init__(
        self, ask: Callable[[], T], is_refusal: Callable[[T], bool], *, again_s: float, clock: Callable[[], float]
    ) -> None:
        self._ask = ask
        self._is_refusal = is_refusal
        self._again_s = again_s
        self._clock = clock
        self._asked_s = 0.0
        self.last: T | None = None
        """What was answered last, None before the first answer."""

    def read(self) -> T:
        """The answer.

        Raises:
            ApiError: it cannot be known now.
        """
        last = self.last
        if last is None or (self._is_refusal(last) and self._clock() - self._asked_s >= self._again_s):
            last = self._ask()
            self.put(last)
        return last

    def put(self, answer: T) -> None:
        """The server has shown otherwise."""
        self.last, self._asked_s = answer, self._clock()


def build_trial(pool: PoolIdentity, counters: tuple[CounterSet, ...] = (), devices: tuple[Device, ...] = ()) -> ResourceSlice:
    """A slice as this node may write it, with what is tried."""
    return ResourceSlice(
        metadata=ObjectMeta(generate_name=build_generate_name(pool, 0)),
        spec=ResourceSliceSpec(
            driver=pool.driver,
            pool=ResourcePool(name=pool.pool, generation=0, resource_slice_count=1),
            node_name=pool.node_name,
            shared_counters=counters,
            devices=devices,
        ),
    )
