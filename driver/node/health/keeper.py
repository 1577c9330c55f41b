"""Keeps what is known of the GPUs' health: in memory, on disk, and said when it changes.

While two instances of the plugin run, both listen, and one of them takes in what is heard: the one that publishes. It alone
writes ``health.json`` and speaks, and before that takes over what another one wrote. The other one shows what is in the file,
with the events on top that it alone has heard so far; if it comes to lead, it takes these in, too.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from driver import log
from driver.claims.flock import FileLock
from driver.errors import StateUnwritable
from driver.health.file import HealthFile
from driver.health.handover import Heard, list_events, list_unheard
from driver.health.model import HEALTHY, Health, Kind
from driver.health.observations import Observation
from driver.health.state import HealthState, Rules, build_health, reduce
from driver.node.health.speech import list_first_xids, list_words
from driver.node.words import Word

_LOG = log.logger(__name__)

LOCK_NAME = "health.lock"
SAY_AGAIN_S = 60.0
"""A trouble that comes and goes is said once in this time; the slices show each change."""
LOCK_S = 5.0
"""How long another instance may be at the file, before what is heard is kept in memory alone."""
WRITE_AGAIN_S = 20.0
"""After the file could not be written."""
MOST_PENDING = 1000
"""Events that are kept until they are in the file."""

_MOVES_LINKS = frozenset({Kind.NVLINK, Kind.GPU_LOST})


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperOutlets:
    """Who is told, and asked."""

    say: Callable[[Word], None]
    on_change: Callable[[], None]
    """Troubles came, went, or are others now: the devices are published anew."""
    on_links: Callable[[], None]
    """NVLinks went or came: islands and pairs are to be read anew."""
    on_unsaved: Callable[[], None]
    """There is something that is not on disk, and may wait a moment: ``save`` is to be called."""
    on_lead: Callable[[], None]
    """The instance that led is gone, and may have left undone what this one would have done."""
    leads: Callable[[], bool]
    """Whether this instance is the one that publishes, or nobody is."""


class HealthKeeper:
    """May be told and asked by any thread."""

    def __init__(
        self,
        file: HealthFile,
        lock: FileLock,
        rules: Rules,
        outlets: KeeperOutlets,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``lock`` is held around each change of the file."""
        self._file = file
        self._lock = lock
        self._rules = rules
        self._outlets = outlets
        self._clock = clock
        self._turn = threading.Lock()
        self._filed = HealthState()
        """What the file says, as far as this instance knows."""
        self._state = HealthState()
        self._health = HEALTHY
        self._pending: list[Observation] = []
        """Events that were heard, and that the file does not say; the oldest first."""
        self._inherited: Heard = {}
        """What another instance had heard when it wrote the file."""
        self._has_led = True
        self._is_closed = False
        self._write_at_s = float("-inf")
        self._said: dict[tuple[str, Kind, bool], float] = {}

    def start(self) -> None:
        """Go on from what the last process knew."""
        with self._turn:
            self._take_over(self._file.read())

    def read(self) -> Health:
        """What is known now."""
        with self._turn, self._alone():
            before = self._state
            self._catch_up()
            health, has_changed = self._health, before.troubles != self._state.troubles
        if has_changed:
            self._outlets.on_change()
        return health

    def note(self, observations: Sequence[Observation]) -> None:
        """Take in what was seen, in its order. What it changes is on disk before anybody is told of it."""
        words: list[Word] = []
        with self._turn, self._alone() as is_alone:
            if self._is_closed:
                return
            before, leads, has_led = self._state, self._outlets.leads(), self._has_led
            has_news = self._catch_up()
            # What is said already, by this instance or the one that led.
            base = self._state if has_led and not has_news else self._filed
            if leads:
                words = self._take_in(base, observations, may_write=is_alone)
            else:
                self._set_aside(observations)
            self._has_led, now, is_saved = leads, self._state, self._state == self._filed
        for word in words:
            self._outlets.say(word)
        if leads and not is_saved:
            self._outlets.on_unsaved()
        if leads and not has_led:
            self._outlets.on_lead()
        if before.troubles != now.troubles:
            self._outlets.on_change()
            if _linkage(before) != _linkage(now):
                self._outlets.on_links()

    def save(self) -> None:
        """Write down what is not on disk yet."""
        with self._turn, self._alone() as is_alone:
            if is_alone and not self._is_closed and self._outlets.leads():
                self._catch_up()
                self._write()

    def close(self) -> None:
        """The process ends: save, and take nothing in any more."""
        self.save()
        with self._turn:
            self._is_closed = True

    def _catch_up(self) -> bool:
        """Take over what another instance wrote meanwhile, if anything."""
        found = self._file.read_news()
        if found is not None:
            self._take_over(found)
        return found is not None

    def _take_over(self, filed: HealthState) -> None:
        """What only this instance has heard stays on top."""
        self._filed, self._inherited = filed, filed.heard
        self._pending = list_unheard(self._pending, filed.heard)
        self._show(self._reduce(filed, self._pending))

    def _take_in(self, base: HealthState, observations: Sequence[Observation], *, may_write: bool) -> list[Word]:
        """As the instance that leads; what is to be said."""
        fresh = list_unheard(observations, self._inherited)
        news = fresh if base is self._state else [*self._pending, *fresh]
        self._pending = [*self._pending, *list_events(fresh)][-MOST_PENDING:]
        self._show(self._reduce(self._state, fresh))
        if may_write and _is_weighty(self._filed, self._state):
            self._write()
        words = list_first_xids(base, self._state, news, self._rules.ignored_xids)
        for trouble, word, is_over in list_words(base, self._state):
            if self._may_say((trouble.device, trouble.kind, is_over), word):
                words.append(word)
        return words

    def _set_aside(self, observations: Sequence[Observation]) -> None:
        """As an instance that does not lead: looks are the other one's business, and events until it has told them."""
        heard = list_unheard(list_events(observations), self._inherited)
        self._pending = [*self._pending, *heard][-MOST_PENDING:]
        self._show(self._reduce(self._state, heard))

    def _reduce(self, state: HealthState, observations: Sequence[Observation]) -> HealthState:
        for seen in observations:
            state = reduce(state, seen, self._rules)
        return state

    def _show(self, state: HealthState) -> None:
        self._state, self._health = state, build_health(state)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        """A context in which no other instance is at the file; False where that cannot be had."""
        try:
            is_alone = self._lock.acquire(LOCK_S, "health")
        except OSError as err:
            self._put_off_writing(err)
            is_alone = False
        try:
            yield is_alone
        finally:
            if is_alone:
                self._lock.release(delete_file=False)

    def _write(self) -> None:
        if self._clock() < self._write_at_s:
            return
        try:
            self._file.write(self._state)
        except StateUnwritable as err:
            self._put_off_writing(err)
        else:
            self._filed, self._pending = self._state, []

    def _put_off_writing(self, err: Exception) -> None:
        if self._clock() >= self._write_at_s:
            self._write_at_s = self._clock() + WRITE_AGAIN_S
            log.event(_LOG, log.ERROR, "the GPUs' health is kept in memory alone; a restart would forget it", error=err)

    def _may_say(self, key: tuple[str, Kind, bool], word: Word) -> bool:
        now_s = self._clock()
        if now_s - self._said.get(key, float("-inf")) < SAY_AGAIN_S:
            log.event(_LOG, log.INFO, word.message, reason=word.reason)
            return False
        self._said[key] = now_s
        return True


def _is_weighty(before: HealthState, now: HealthState) -> bool:
    """Whether a restart that forgot the change would be wrong."""
    return before.troubles != now.troubles or before.epoch != now.epoch or _learned(before) != _learned(now)


def _learned(state: HealthState) -> dict[str, tuple[object, ...]]:
    """What the next looks are judged by."""
    return {name: (each.uuid, each.links, each.uncorrected_ecc_errors) for name, each in state.gpus.items()}


def _linkage(state: HealthState) -> frozenset[tuple[str, str]]:
    return frozenset((each.device, each.message) for each in state.troubles if each.kind in _MOVES_LINKS)
