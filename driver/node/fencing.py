"""Keeps the node's fence where it is to be: looks, decides (``fence``), puts it on record, has it published.

The first decision is made when the publication asks for it, so that an instance without anything to publish takes the role of
the publisher from nobody. From then on a thread looks again whenever the node's label, the controller's word, what the API
server has, or the time gives a reason. Only the instance that holds the publisher's lock writes the record, under that lock; an
older one reads what the newer decided, and its publisher writes nothing that the record does not say (R3).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from driver import log
from driver.api.resource_v1 import Device
from driver.errors import ApiError, StateUnwritable
from driver.node.clock import read_now
from driver.node.fence import (
    FenceRecord,
    FenceSeen,
    FenceStep,
    Moment,
    Wish,
    is_about_to_fence,
    is_waiting_for_controller,
    plan_fence,
    recover_record,
)
from driver.node.fence_file import FenceFile
from driver.node.fence_support import FenceSupport
from driver.node.lease_watch import LeaseWatch
from driver.node.node_watch import NodeSeen
from driver.node.words import Word
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.content import SliceContent
from driver.resourceslice.fence import FenceStanding, find_allocators, is_fenced_as, judge_fence, read_fence_times
from driver.resourceslice.publish_reports import Settled
from driver.resourceslice.publisher_lock import PublisherLock

_LOG = log.logger(__name__)

FIRST_LOOK_S = 5.0
"""How long the first decision waits for the node's label."""
_LOCK_WAIT_S = 10.0
_AGAIN_S = 5.0
"""After a failure; what failed may be the disk or the API server."""
_FOLLOW_S = 30.0
"""How often an older instance looks whether the newer one still lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceSettings:
    """One node's."""

    allocator: Allocator
    """Where the node has no label."""
    drain_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """What devices are to say: whose they are, and since when."""

    allocator: Allocator
    time_added: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FencePorts:
    """What the fence is decided from, and whom it is told to."""

    file: FenceFile
    lock: PublisherLock
    support: FenceSupport
    lease: LeaseWatch
    read_node: Callable[[float], NodeSeen]
    """What the Node says; the first look is waited for that long."""
    read_settled: Callable[[], Settled | None]
    """What the API server was given and has; None while it is being written."""
    read_published: Callable[[], Sequence[Device]]
    """The devices that the API server has, asked for anew. Raises ``ApiError``."""
    read_remembered: Callable[[], Sequence[Device]]
    """The devices of the inventory."""
    read_moment: Callable[[], Moment]
    say: Callable[[Word], None]
    on_change: Callable[[], None]
    """The devices have to be published anew."""
    read_wall: Callable[[], datetime] = read_now


class Fencing:
    """``read`` is for the publication, ``allows`` for the publisher, ``wake`` for everybody who has a reason."""

    def __init__(self, settings: FenceSettings, ports: FencePorts) -> None:
        self._settings = settings
        self._ports = ports
        self._deciding = threading.Lock()
        self._record: FenceRecord | None = None
        self._said: frozenset[Word] = frozenset()
        self._wait_s: float | None = None
        self._is_engaged = False
        self._is_stopped = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fence", daemon=True)

    def start(self) -> None:
        """Begin to look for reasons."""
        self._thread.start()

    def stop(self) -> None:
        """No further decision."""
        self._is_stopped = True
        self._wake.set()

    def wake(self) -> None:
        """There may be a reason to decide anew. Returns at once."""
        self._wake.set()

    def read(self) -> Fence | None:
        """What is to be published; None while nothing may be.

        Raises:
            ApiError, StateUnwritable: it cannot be known now.
        """
        self._ports.read_node(0.0 if self._is_engaged else FIRST_LOOK_S)
        self._is_engaged = True
        record = self._decide()
        if self._wait_s is not None:
            self.wake()  # the thread waits for another moment, or for none
        return None if record is None else Fence(allocator=record.state, time_added=record.time_added)

    def allows(self, contents: Sequence[SliceContent]) -> bool:
        """Whether these slices say what is on record, whoever wrote it there. If not, it is decided anew.

        Raises:
            StateUnwritable: the record cannot be read.
        """
        record = self._ports.file.read()
        devices = [device for content in contents for device in content.devices]
        if record is not None and is_fenced_as(devices, record.state, record.time_added):
            return True
        self._record = None  # so that the next decision is news
        self.wake()
        return False

    def _run(self) -> None:
        while True:
            self._wake.wait(self._wait_s)
            self._wake.clear()
            if self._is_stopped:
                return
            if self._is_engaged:
                self._decide_anew()

    def _decide_anew(self) -> None:
        before = self._record
        try:
            record = self._decide()
        except (ApiError, StateUnwritable) as err:
            log.event(_LOG, log.WARNING, "whose the devices are cannot be decided; trying again", error=err)
            self._wait_s = _AGAIN_S
            return
        except Exception as err:  # noqa: BLE001  the outermost frame of this thread: without it no node ever changes sides
            log.event(_LOG, log.ERROR, "deciding whose the devices are failed; trying again", error=err, exc=err)
            self._wait_s = _AGAIN_S
            return
        if record is not None and (before is None or (record.state, record.time_added) != (before.state, before.time_added)):
            self._ports.on_change()

    def _decide(self) -> FenceRecord | None:
        """One step, on record when it returns."""
        ports = self._ports
        with self._deciding:
            ports.lock.acquire()
            known, words = self._recall()
            wanted, more = self._read_wish()
            seen, still_more = self._look(known, wanted)
            with ports.lock.writing(_LOCK_WAIT_S) as may_write:
                if not may_write:
                    return self._follow()
                on_disk = ports.file.read()
                step = plan_fence(on_disk or known, seen)
                if step.record is not None and step.record != on_disk:
                    ports.file.write(step.record)
            self._conclude(step, (*words, *more, *still_more))
            return step.record

    def _recall(self) -> tuple[FenceRecord | None, tuple[Word, ...]]:
        """The record, or what stands for it where it was lost."""
        ports = self._ports
        record = ports.file.read()
        if record is not None:
            return record, ()
        published = ports.read_published()
        said = find_allocators(published, ports.read_remembered())
        recovered = recover_record(said, read_fence_times(published), ports.read_wall())
        if recovered is None or recovered.state is Allocator.SCHEDULER:
            return recovered, ()  # nobody was ever here, or nobody ever kept a record: both are as usual
        text = (
            f"The record of who allocates this node's devices was lost; by the devices themselves it is {recovered.state.value}"
        )
        return recovered, (Word(reason="FenceRecordLost", message=text),)

    def _read_wish(self) -> tuple[Wish, tuple[Word, ...]]:
        node = self._ports.read_node(0.0)
        if node.trouble:
            text = f"Who is to allocate this node's devices cannot be read, so nothing new is published: {node.trouble}"
            return None, (Word(reason="AllocatorUnknown", message=text),)
        if node.label is None:
            return self._settings.allocator, ()
        wishes = {each.value: each for each in (Allocator.SCHEDULER, Allocator.CONTROLLER)}
        if node.label in wishes:
            return wishes[node.label], ()
        text = f"The Node's label gpu.nvidia.com/allocator={node.label[:63]} is none of {', '.join(wishes)}; nothing is changed"
        return None, (Word(reason="AllocatorUnknown", message=text),)

    def _look(self, known: FenceRecord | None, wanted: Wish) -> tuple[FenceSeen, tuple[Word, ...]]:
        ports, now = self._ports, self._ports.read_moment()
        words: tuple[Word, ...] = ()
        is_gone, refusal = False, None
        if is_waiting_for_controller(known, wanted):
            try:
                is_gone = ports.lease.look(now, self._settings.drain_s)
            except ApiError as err:
                text = f"Whether there is a controller cannot be seen, so only its acknowledgement counts: {err}"
                words = (Word(reason="ControllerLeaseUnreadable", message=text),)
        else:
            ports.lease.forget()
        if is_about_to_fence(known, wanted):
            refusal = ports.support.find_refusal()
        seen = FenceSeen(
            wanted=wanted,
            refusal=refusal,
            standing=self._read_standing(known),
            acknowledged=ports.read_node(0.0).acknowledged,
            is_controller_gone=is_gone,
            now=now,
            wall=ports.read_wall(),
            drain_s=self._settings.drain_s,
        )
        return seen, words

    def _read_standing(self, known: FenceRecord | None) -> FenceStanding | None:
        settled = self._ports.read_settled()
        if settled is None or known is None or known.state is Allocator.SCHEDULER:
            return None
        if not is_fenced_as(settled.asked, known.state, known.time_added):
            return None  # what is on record is not sent yet
        return judge_fence(settled.stored, known.state, known.time_added)

    def _follow(self) -> FenceRecord | None:
        """A newer instance decides: what it has put on record is what we know, so that we go on from there if it ends."""
        self._record, self._wait_s = self._ports.file.read(), _FOLLOW_S
        return self._record

    def _conclude(self, step: FenceStep, words: tuple[Word, ...]) -> None:
        said = (*words, *step.words)
        for word in said:
            if word not in self._said:
                self._ports.say(word)
            if word.reason == "FenceLost":
                self._ports.support.note_lost()
        self._said = frozenset(said)
        self._record, self._wait_s = step.record, step.wait_s
