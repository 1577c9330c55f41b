"""The decision thread: takes in what happens, decides, and hands over what is to be written. It owns all that it knows.

Values come in by one queue, in batches: a list of ten thousand nodes is one decision, not ten thousand.
"""

from __future__ import annotations

import contextlib
import gc
import queue
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from driver import log
from driver.allocator.hold import Holds
from driver.controller.acting.fence_climbers import tell_climbers
from driver.controller.acting.ledger import Ledger
from driver.controller.acting.outcomes import Outcomes
from driver.controller.acting.placer import Placer
from driver.controller.acting.retaker import Retaker
from driver.controller.acting.speech import Recorder, Speech
from driver.controller.acting.witness import Witness
from driver.controller.books.mirror import Cluster
from driver.controller.books.occupancy import OccupancyCounter
from driver.controller.deciding.decision import Wait
from driver.controller.deciding.lessons import Lessons
from driver.controller.deciding.waiting_line import WaitingLine
from driver.controller.intake import Message, Stop, Told
from driver.controller.metrics import ControllerMetrics, WaitReason, classify_wait
from driver.controller.settings import ControllerSettings
from driver.controller.writing.fence import PoolWrites, plan_acknowledgements
from driver.controller.writing.in_flight import InFlight
from driver.controller.writing.writer import AcknowledgeJob, Job

_LOG = log.logger(__name__)
TICK_S = 1.0
"""How often what depends on the clock alone is looked at."""
_BREATH_S = 0.01
_FIGURES_S = 10.0
_LOOK_AT_ALL_S = 30.0
_BATCH = 2000
_EXPLAIN_S = 0.1
"""Of each tick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """``steady_s`` never goes back; ``wall_s`` is unix time, which objects carry."""

    steady_s: Callable[[], float] = time.monotonic
    wall_s: Callable[[], float] = time.time


class Loop:
    """Built and run by one thread; ``put`` for any."""

    def __init__(
        self,
        settings: ControllerSettings,
        submit: Callable[[Job], None],
        recorder: Recorder,
        metrics: ControllerMetrics,
        clocks: Clocks | None = None,
    ) -> None:
        self._clocks = clocks or Clocks()
        self._queue: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.cluster = Cluster(settings.driver_name, schedulers=settings.schedulers)
        self._recorder = recorder
        self._pools = PoolWrites(self._clocks.steady_s())
        in_flight = InFlight(settings.driver_name, submit, self._pools)
        self._ledger = Ledger(self.cluster, in_flight, Lessons(settings.lessons), Speech(recorder), metrics)
        self._witness = Witness(self._ledger)
        self._outcomes = Outcomes(self._ledger)
        self._line = WaitingLine(self.cluster, None if settings.hold is None else Holds(settings.hold))
        self._placer = Placer(self._ledger, self._line, max_in_flight=settings.max_in_flight)
        self._retaker = Retaker(self._ledger, settings.idle, max_take_backs=settings.max_take_backs)
        self._occupancy = OccupancyCounter()
        self._waits: dict[str, WaitReason] = {}
        self._ticked_s = self._figured_s = self._looked_s = 0.0
        self.is_ready = False
        """Whether everything was listed: from then on it decides."""
        self.moved_s = self._clocks.steady_s()
        """When it last began something."""

    @property
    def is_halfway(self) -> bool:
        """Whether it has looked at a part only of what waits, and goes on as soon as what came meanwhile is taken in."""
        return self._line.is_unfinished

    def put(self, message: Message) -> None:
        """Tell it something."""
        self._queue.put(message)

    def describe(self) -> str:
        """What it does, in plain words, for probes."""
        if not self.is_ready:
            return f"lists {', '.join(self._witness.missing)}"
        failing = "; ".join(f"watching {each.value}: {why}" for each, why in tuple(self._witness.failing.items()))
        return f"decides{'; ' + failing if failing else ''}"

    def run(self) -> None:
        """Until ``Stop``."""
        is_frozen = False
        while self._take(self._read_batch()):
            self.act()
            if self.is_ready and not is_frozen:
                gc.freeze()  # a cluster's worth of objects stays: to look through them again would stop all threads for long
                is_frozen = True

    def take_all(self) -> bool:
        """Take in what has come by now. False where the end was told."""
        batch: list[Message] = []
        with contextlib.suppress(queue.Empty):
            while True:
                batch.append(self._queue.get_nowait())
        return self._take(batch)

    def act(self) -> None:
        """Decide and look after what is there, as things are now."""
        if not self.is_ready:
            self.is_ready = not self._witness.missing
            if not self.is_ready:
                return
            log.event(
                _LOG, log.INFO, "everything is listed; deciding", claims=len(self.cluster.claims), nodes=len(self.cluster.nodes)
            )
            tell_climbers(self.cluster.claims.values(), self._recorder)
        now_s, wall_s = self._clocks.steady_s(), self._clocks.wall_s()
        self._placer.decide(now_s, wall_s)
        self._retaker.sweep(now_s, is_decided=not self._placer.is_unfinished)
        if now_s - self._ticked_s >= TICK_S:
            self._ticked_s = now_s
            self._tick(now_s, wall_s)

    def _read_batch(self) -> list[Message]:
        """What has come, at least one value, or nothing after the time that something is due."""
        batch: list[Message] = []
        try:
            if self._queue.empty():  # else there is no need to know for how long to wait, which takes a look at all that wait
                batch.append(self._queue.get(timeout=self._wait_s()))
            while len(batch) < _BATCH:
                batch.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return batch

    def _wait_s(self) -> float:
        now_s = self._clocks.steady_s()
        if self.is_halfway:
            return _BREATH_S
        dues = (
            self._line.next_change_s(self._clocks.wall_s()) if self.is_ready else None,
            self._ledger.lessons.next_change_s(now_s),
            self._ledger.in_flight.next_resolve_s(now_s),
        )
        return min((TICK_S, *(max(_BREATH_S, each) for each in dues if each is not None)))

    def _take(self, batch: list[Message]) -> bool:
        """False where it is the end."""
        now_s, wall_s = self._clocks.steady_s(), self._clocks.wall_s()
        self.moved_s = now_s
        for message in batch:
            if isinstance(message, Told):
                self._witness.note(message, now_s)
            elif isinstance(message, Stop):
                return False
            else:
                self._outcomes.note(message, now_s, wall_s)
        return True

    def _tick(self, now_s: float, wall_s: float) -> None:
        self._ledger.lessons.prune(now_s)
        self._ledger.put_off.prune(now_s)
        self._ledger.in_flight.resolve_due(now_s)
        self._acknowledge(now_s)
        self._tell_waiting(now_s, wall_s)
        writes = self._ledger.in_flight
        self._ledger.metrics.set_work(queued=self._queue.qsize(), places=writes.places, take_backs=writes.take_backs)
        self._ledger.metrics.set_holding(is_holding=self._line.is_holding)
        if now_s - self._figured_s >= _FIGURES_S:
            self._figured_s = now_s
            self._ledger.metrics.set_occupancy(self._occupancy.count(self.cluster.fleet))
        if now_s - self._looked_s >= _LOOK_AT_ALL_S:
            self._looked_s = now_s
            self._retaker.look_at_all(now_s)

    def _acknowledge(self, now_s: float) -> None:
        """Let nodes go that want to leave, once nothing is under way for them."""
        pools = self._ledger.draining_pools()
        for each in plan_acknowledgements(pools, self.cluster.nodes, self._pools, now_s=now_s):
            if not self._ledger.put_off.is_put_off(each.node_uid, now_s):
                self._ledger.in_flight.acknowledge(AcknowledgeJob(acknowledgement=each))

    def _tell_waiting(self, now_s: float, wall_s: float) -> None:
        """Say why things wait; a few at a time, since looking at every node takes its time."""
        ends_s = self._clocks.steady_s() + _EXPLAIN_S
        advice = self._ledger.advise(now_s)
        waiting = self._line.waiting
        for demand in self._line.refused:
            if advice.is_resting(demand):
                continue
            if self._ledger.speech.is_due(demand, now_s) and self._clocks.steady_s() < ends_s:
                wait = self._line.explain(demand, advice)
                if isinstance(wait, Wait):
                    reason = self._waits[demand.key] = classify_wait(wait)
                    self._ledger.metrics.note_wait(reason)
                    self._ledger.speech.say_waits(demand, wait.text, now_s)
        keys = frozenset(each.key for each in waiting)
        self._ledger.speech.keep_only(keys)
        self._waits = {key: reason for key, reason in self._waits.items() if key in keys}
        counts: Counter[WaitReason] = Counter()
        for demand in waiting:
            if demand.key in self._waits:
                counts[self._waits[demand.key]] += len(demand.claims)
        oldest_s = min((each.since_s for each in waiting), default=wall_s)
        self._ledger.metrics.set_waiting(counts, oldest_s=max(0.0, wall_s - oldest_s))
