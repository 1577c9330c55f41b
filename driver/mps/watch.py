"""Daemons that have died are started again; their clients are lost, but new ones get in.

One thread waits for the end of any daemon, ours or one that an earlier plugin has started. A restart may take seconds, in which
other daemons wait for theirs; claims do not.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from driver import log
from driver.errors import DeviceNotReady
from driver.mps import process
from driver.mps.daemon import Daemons
from driver.mps.daemon_files import DaemonSpec

_LOG = log.logger(__name__)

FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 60.0
STEADY_S = 60.0
"""A daemon that has run for so long begins its retries anew."""


@dataclass(slots=True, kw_only=True)
class _Kept:
    spec: DaemonSpec
    identity: process.Identity | None = None
    since: float = 0.0
    is_told: bool = False
    """It has been told its limits by this process: one that somebody else has started may not know them yet."""
    has_died: bool = False
    """It ran, and nobody was told yet that it ended."""
    retry_at: float = 0.0
    pause_s: float = FIRST_RETRY_S


class DaemonWatch:
    """Looks after the daemons that it was told to ``keep``, until it is told to ``forget`` them. Call from any thread."""

    def __init__(self, daemons: Daemons, report: Callable[[str], None]) -> None:
        """``report`` is told when a daemon has died, and when it cannot be started."""
        self._daemons = daemons
        self._report = report
        self._guard = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def keep(self, spec: DaemonSpec) -> None:
        """Have it run from now on; returns at once."""
        identity = self._daemons.read_identity(spec.name)
        with self._guard:
            if spec.name in self._kept or self._is_stopping:
                return
            self._kept[spec.name] = _Kept(spec=spec, identity=identity, since=time.monotonic())
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="mps-watch", daemon=True)
                self._thread.start()
        self._wake()

    def forget(self, name: str) -> None:
        """It may end."""
        with self._guard:
            self._kept.pop(name, None)

    def stop(self) -> None:
        """Look after nothing any more. The daemons stay: pods go on."""
        with self._guard:
            self._is_stopping = True
            self._kept.clear()
        self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:
            return

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                wait_s = self._look()
                self._sleep(wait_s)
            except Exception as err:  # noqa: BLE001  the outermost frame of this thread: without it no daemon comes back
                log.event(_LOG, log.ERROR, "looking after MPS daemons failed; trying again", error=err, exc=err)
                time.sleep(FIRST_RETRY_S)

    def _look(self) -> float | None:
        """See to every daemon; seconds until one is due again."""
        with self._guard:
            kept = list(self._kept.values())
        now = time.monotonic()
        for each in kept:
            if not each.is_told or each.identity is None or not process.is_alive(each.identity):
                self._see_to(each, now)
        due = [each.retry_at - now for each in kept if not each.is_told]
        return max(0.0, min(due)) if due else None

    def _see_to(self, kept: _Kept, now: float) -> None:
        if kept.identity is not None and not process.is_alive(kept.identity):
            process.reap(kept.identity.pid)
            kept.identity = None
            kept.has_died, kept.is_told = True, False
            if now - kept.since > STEADY_S:
                kept.pause_s = FIRST_RETRY_S
        if now >= kept.retry_at and self._is_kept(kept):
            self._restart(kept)

    def _restart(self, kept: _Kept) -> None:
        before = kept.identity
        kept.retry_at, kept.pause_s = time.monotonic() + kept.pause_s, min(2 * kept.pause_s, LONGEST_RETRY_S)
        try:
            kept.identity = self._daemons.restart(kept.spec)
        except DeviceNotReady as err:
            self._report(f"the MPS daemon {kept.spec.name} cannot be started: {err}; it is tried again")
            return
        kept.is_told, kept.since = True, time.monotonic()
        if kept.identity is None:  # another plugin has stopped it
            self.forget(kept.spec.name)
        elif kept.has_died or before not in (None, kept.identity):
            self._report(f"the MPS daemon {kept.spec.name} had ended and runs again; what was its client has failed")
        kept.has_died = False

    def _is_kept(self, kept: _Kept) -> bool:
        with self._guard:
            return self._kept.get(kept.spec.name) is kept

    def _sleep(self, wait_s: float | None) -> None:
        """Until a daemon ends, one is due, or there is news."""
        with self._guard:
            identities = [each.identity for each in self._kept.values() if each.identity is not None]
        descriptors = _open_all(identities)
        poll = select.poll()
        try:
            for descriptor in (self._wake_read, *descriptors.values()):
                poll.register(descriptor, select.POLLIN)
            ready = poll.poll(None if wait_s is None else 1000.0 * wait_s) if len(descriptors) == len(identities) else []
        finally:
            for descriptor in descriptors.values():
                os.close(descriptor)
        if any(descriptor == self._wake_read for descriptor, _ in ready):
            os.read(self._wake_read, 4096)


def _open_all(identities: list[process.Identity]) -> Mapping[int, int]:
    """Descriptors by process; those that have ended have none."""
    opened = {}
    for identity in identities:
        try:
            opened[identity.pid] = os.pidfd_open(identity.pid)
        except ProcessLookupError:
            continue
    return opened
