"""One lease in memory, with versions and conflicts as the API server has them, and a clock to step contenders by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from driver.controller.election.lease import Lease
from driver.errors import ApiError, Conflict, NotFound


@dataclass
class ManualClock:
    """Seconds that pass when a test says so."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class FakeLeases:
    """A ``driver.controller.election.lease_api.Leases``. ``on_write`` is called before a write is looked at, and may raise."""

    lease: Lease | None = None
    version: int = 0
    down: ApiError | None = None
    """Raised by every request while it is set."""
    lost_answers: int = 0
    """So many writes take effect, and their answers get lost."""
    on_write: Callable[[], None] | None = None
    holders: list[str] = field(default_factory=list)
    """Who held the lease, each time that somebody else took it."""

    def read(self) -> Lease:
        self._answer()
        if self.lease is None:
            raise NotFound("GET lease", 404, "not found")
        return self.lease

    def create(self, lease: Lease) -> Lease:
        self._begin_write()
        if self.lease is not None:
            raise Conflict("POST lease", 409, "already exists")
        return self._store(lease)

    def replace(self, lease: Lease) -> Lease:
        self._begin_write()
        if self.lease is None:
            raise NotFound("PUT lease", 404, "not found")
        if lease.metadata.resource_version != self.lease.metadata.resource_version:
            raise Conflict("PUT lease", 409, "the object has been modified")
        return self._store(lease)

    def touch(self) -> None:
        """Somebody writes a label."""
        assert self.lease is not None
        self._keep(self.lease)

    def _begin_write(self) -> None:
        self._answer()
        if self.on_write is not None:
            self.on_write()

    def _answer(self) -> None:
        if self.down is not None:
            raise self.down

    def _store(self, lease: Lease) -> Lease:
        self._keep(lease)
        if self.lost_answers > 0:
            self.lost_answers -= 1
            raise ApiError("PUT lease", 0, "no answer")
        assert self.lease is not None
        return self.lease

    def _keep(self, lease: Lease) -> None:
        self.version += 1
        metadata = msgspec.structs.replace(lease.metadata, resource_version=str(self.version))
        self.lease = msgspec.structs.replace(lease, metadata=metadata)
        if not self.holders or self.holders[-1] != lease.spec.holder_identity:
            self.holders.append(lease.spec.holder_identity)
