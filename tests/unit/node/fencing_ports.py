"""Every port of a fencing, as simple as can be."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar, cast

from driver.api.resource_v1 import Attribute, Device, Taint
from driver.errors import ApiUnreachable
from driver.node.fence import FenceRecord, Moment
from driver.node.fence_file import FenceFile
from driver.node.fence_support import FenceSupport
from driver.node.fencing import FencePorts, FenceSettings, Fencing
from driver.node.lease_watch import LeaseWatch
from driver.node.node_watch import NodeSeen
from driver.node.words import Word
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.publish_reports import Settled

NOW = "2026-12-02T12:00:00Z"
T = TypeVar("T")


def device(allocator: Allocator, since: str = NOW) -> Device:
    taint = Taint(key="gpu.nvidia.com/allocator", value=allocator.value, effect="NoSchedule", time_added=since)
    attributes = {"allocator": Attribute(string=allocator.value)}
    return Device(name="gpu-0000-01-00-0", attributes=attributes, taints=() if allocator is Allocator.SCHEDULER else (taint,))


class Around:
    """Every port, as simple as can be."""

    def __init__(self, folder: Path, allocator: Allocator = Allocator.SCHEDULER, drain_s: float = 900.0) -> None:
        self.node = NodeSeen(trouble="")
        self.settled: Settled | None = None
        self.published: list[Device] | ApiUnreachable = []
        self.remembered: list[Device] = []
        self.refusal: str | ApiUnreachable = ""
        self.lost = 0
        self.is_gone: bool | ApiUnreachable = False
        self.lease_looks: list[str] = []
        self.may_write = True
        self.uptime_s = 1000.0
        self.words: list[Word] = []
        self.changes = threading.Semaphore(0)
        self.file = FenceFile(folder)
        self.acquired = 0
        ports = FencePorts(
            file=self.file,
            lock=self,
            support=cast(FenceSupport, self),
            lease=cast(LeaseWatch, self),
            read_node=lambda _: self.node,
            read_settled=lambda: self.settled,
            read_published=lambda: _give(self.published),
            read_remembered=lambda: self.remembered,
            read_moment=lambda: Moment(boot_id="boot-1", uptime_s=self.uptime_s),
            say=self.words.append,
            on_change=self.changes.release,
            read_wall=lambda: datetime(2026, 12, 2, 12, 0, 0, tzinfo=UTC),
        )
        self.fencing = Fencing(FenceSettings(allocator=allocator, drain_s=drain_s), ports)

    # -- the publisher's lock

    def acquire(self) -> None:
        self.acquired += 1

    def is_held(self) -> bool:
        return self.may_write

    def is_anothers(self) -> bool:
        return not self.may_write

    @contextmanager
    def writing(self, wait_s: float) -> Iterator[bool]:
        yield self.may_write

    def release(self) -> None:
        return

    # -- what the server can do, and the lease

    def find_refusal(self) -> str:
        return _give(self.refusal)

    def note_lost(self) -> None:
        self.lost += 1

    def look(self, now: Moment, drain_s: float) -> bool:
        self.lease_looks.append("look")
        return _give(self.is_gone)

    def forget(self) -> None:
        self.lease_looks.append("forget")

    # --

    def publish(self, *, stored: Device | None = None) -> None:
        """What is on record is in place, as it is or as the server made it."""
        record = self.record()
        asked = device(record.state, record.time_added)
        self.settled = Settled(asked=(asked,), stored=(stored or asked,))

    def record(self) -> FenceRecord:
        found = self.file.read()
        assert found is not None
        return found

    def reasons(self) -> list[str]:
        return [word.reason for word in self.words]


def _give(what: T | ApiUnreachable) -> T:
    if isinstance(what, ApiUnreachable):
        raise what
    return what
