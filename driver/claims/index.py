"""Who holds which device, from the records on disk, without reading those that did not change.

Two instances of the plugin write to one folder, so memory alone is never believed: each look compares the folder's entries
(name, inode, mtime, size) with the last one and parses only what differs (R12).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from driver.cdi import names as cdi_names
from driver.claims import store
from driver.claims.plan import Hold
from driver.claims.record import ClaimRecord
from driver.claims.store import Corrupt, RecordFolder, Stored
from driver.errors import StateUnwritable
from driver.names import ClaimUID, DeviceName

_CLOCK_TICK_NS = 50_000_000
"""Two writes within one tick of the file system's clock can leave the same mtime; so a file that was this young when it was
parsed is parsed again."""

_Stamp: TypeAlias = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """The devices that records hold, and the corrupt records that hold nobody knows what."""

    by_device: Mapping[DeviceName, tuple[Hold, ...]]
    of_all: tuple[Hold, ...] = ()

    def of(self, devices: Mapping[DeviceName, object] | tuple[DeviceName, ...]) -> Mapping[DeviceName, tuple[Hold, ...]]:
        """The holds on each of these devices."""
        return {device: (*self.by_device.get(device, ()), *self.of_all) for device in devices}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    stamp: _Stamp
    parsed_at_ns: int
    found: Stored | Corrupt
    last_good: ClaimRecord | None = field(repr=False)
    """What the file held before it became unreadable."""

    def is_current(self, stamp: _Stamp) -> bool:
        return stamp == self.stamp and stamp[2] + _CLOCK_TICK_NS < self.parsed_at_ns


class ClaimIndex:
    """All records of a folder, as they stand on disk at each call. Safe to use from several threads."""

    def __init__(
        self,
        folder: RecordFolder,
        read_granted: Callable[[ClaimUID], Stored | None],
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """``read_granted`` reads the plan in the annotations of a claim's CDI file: what a corrupt record may have held."""
        self._folder = folder
        self._read_granted = read_granted
        self._now_ns = now_ns
        self._guard = threading.Lock()
        self._entries: dict[ClaimUID, _Entry] = {}

    def read_all(self) -> Mapping[ClaimUID, Stored | Corrupt]:
        """Every record, whatever its state.

        Raises:
            StateUnwritable: the folder cannot be read.
        """
        with self._guard:
            self._refresh()
            return {uid: entry.found for uid, entry in self._entries.items()}

    def read_holders(self, but: ClaimUID) -> Holders:
        """Who holds what, without the claim ``but`` itself. Admin access holds nothing (B66).

        Raises:
            StateUnwritable: the folder cannot be read.
        """
        with self._guard:
            self._refresh()
            entries = [(uid, entry) for uid, entry in self._entries.items() if uid != but]
        by_device: dict[DeviceName, tuple[Hold, ...]] = {}
        of_all: list[Hold] = []
        for uid, entry in entries:
            record = self._record_of(uid, entry)
            if record is None:
                of_all.append(Hold(by=_describe_corrupt(entry.found)))
                continue
            for device in record.devices:
                if not device.is_admin:
                    hold = Hold(by=_describe(record, entry.found), share_id=device.share_id)
                    name = DeviceName(device.device)
                    by_device[name] = (*by_device.get(name, ()), hold)
        return Holders(by_device=by_device, of_all=tuple(of_all))

    def read_devices(self) -> frozenset[DeviceName]:
        """Every device in a record that can be read or rebuilt, admin access too.

        Raises:
            StateUnwritable: the folder cannot be read.
        """
        with self._guard:
            self._refresh()
            records = [self._record_of(uid, entry) for uid, entry in self._entries.items()]
        return frozenset(DeviceName(device.device) for record in records if record is not None for device in record.devices)

    def recall(self, uid: ClaimUID) -> ClaimRecord | None:
        """What a claim's record held when it could last be read; None where this process never saw it."""
        with self._guard:
            entry = self._entries.get(uid)
            return entry.last_good if entry is not None else None

    def _record_of(self, uid: ClaimUID, entry: _Entry) -> ClaimRecord | None:
        if isinstance(entry.found, Stored):
            return entry.found.record
        granted = self._read_granted(uid) if entry.last_good is None else None
        return granted.record if granted is not None else entry.last_good

    def _refresh(self) -> None:
        seen: dict[ClaimUID, _Entry] = {}
        try:
            for uid, path, stamp in _scan(self._folder.folder):
                known = self._entries.get(uid)
                entry = known if known is not None and known.is_current(stamp) else self._parse(uid, path, stamp)
                if entry is not None and not (uid in seen and path.suffix == store.CORRUPT_SUFFIX):
                    seen[uid] = entry
        except OSError as err:
            raise StateUnwritable(f"reading the record folder {self._folder.folder}: {err}") from err
        self._entries = seen

    def _parse(self, uid: ClaimUID, path: Path, stamp: _Stamp) -> _Entry | None:
        now_ns = self._now_ns()
        try:
            found = store.read_file(path, uid)
        except FileNotFoundError:
            return None
        known = self._entries.get(uid)
        last_good = found.record if isinstance(found, Stored) else (known.last_good if known is not None else None)
        return _Entry(stamp=stamp, parsed_at_ns=now_ns, found=found, last_good=last_good)


def _scan(folder: Path) -> Iterator[tuple[ClaimUID, Path, _Stamp]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            stem, dot, suffix = entry.name.partition(".")
            if f"{dot}{suffix}" not in (store.RECORD_SUFFIX, store.CORRUPT_SUFFIX) or not cdi_names.is_uid(stem):
                continue
            try:
                stat = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield ClaimUID(stem), Path(entry.path), (entry.name, stat.st_ino, stat.st_mtime_ns, stat.st_size)


def _describe(record: ClaimRecord, found: Stored | Corrupt) -> str:
    state = record.state.value if isinstance(found, Stored) else "its record is corrupt"
    return f"{record.ref()} ({state})"


def _describe_corrupt(found: Stored | Corrupt) -> str:
    path = found.path if isinstance(found, Corrupt) else ""
    return f"an unreadable record ({path}), which may be of any device until it is mended"
