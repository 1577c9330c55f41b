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
from typing import TypeAlias

from driver.claims import store
from driver.claims.plan import Holder
from driver.claims.record import ClaimRecord, RecordedDevice
from driver.claims.store import Corrupt, RecordFolder, Stored
from driver.errors import StateUnwritable
from driver.names import ClaimUID, DeviceName, is_uid
from driver.topology.mig import Footprint

_CLOCK_TICK_NS = 50_000_000
"""Two writes within one tick of the file system's clock can leave the same mtime; so a file that was this young when it was
parsed is parsed again."""

_Stamp: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One file of the folder, as it was when it was last parsed."""

    stamp: _Stamp
    """Inode, mtime, size."""
    parsed_at_ns: int
    uid: ClaimUID
    found: Stored | Corrupt
    last_good: ClaimRecord | None = field(repr=False)
    """What the claim's record held before it became unreadable."""
    held: frozenset[str]
    """GPUs of which a record that can be read has something; admin access holds none (B66)."""

    def is_current(self, stamp: _Stamp) -> bool:
        return stamp == self.stamp and stamp[1] + _CLOCK_TICK_NS < self.parsed_at_ns


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
        self._entries: dict[str, _Entry] = {}
        """By file name."""

    def read_all(self) -> Mapping[ClaimUID, Stored | Corrupt]:
        """Every record, whatever its state.

        Raises:
            StateUnwritable: the folder cannot be read.
        """
        return {entry.uid: entry.found for entry in self._read_entries()}

    def read_holders(self, wanted: Mapping[DeviceName, Footprint], but: ClaimUID) -> Mapping[DeviceName, tuple[Holder, ...]]:
        """Who holds a part of what each device takes, but for the claim ``but``. A corrupt record of unknown content holds all.

        Raises:
            StateUnwritable: the folder cannot be read.
        """
        holders: dict[DeviceName, tuple[Holder, ...]] = {}
        gpus = {footprint.gpu for footprint in wanted.values()}
        for entry in self._read_entries():
            if entry.uid == but or (isinstance(entry.found, Stored) and entry.held.isdisjoint(gpus)):
                continue
            for device, holder in self._list_holders(entry, wanted):
                holders[device] = (*holders.get(device, ()), holder)
        return holders

    def read_devices(self) -> frozenset[DeviceName]:
        """Every device in a record that can be read or rebuilt, admin access too.

        Raises:
            StateUnwritable: the folder cannot be read.
        """
        return frozenset(DeviceName(device.device) for record in self.read_records() for device in record.devices)

    def read_records(self) -> tuple[ClaimRecord, ...]:
        """Every record that can be read or rebuilt.

        Raises:
            StateUnwritable: the folder cannot be read.
        """
        records = (self._record_of(entry) for entry in self._read_entries())
        return tuple(record for record in records if record is not None)

    def recall(self, uid: ClaimUID) -> ClaimRecord | None:
        """What a claim's record held when it could last be read; None where this process never saw it."""
        with self._guard:
            known = [entry.last_good for entry in self._entries.values() if entry.uid == uid]
        return next((record for record in known if record is not None), None)

    def _list_holders(self, entry: _Entry, wanted: Mapping[DeviceName, Footprint]) -> Iterator[tuple[DeviceName, Holder]]:
        record = self._record_of(entry)
        if record is None:
            yield from ((device, Holder(who=_describe_corrupt(entry.found))) for device in wanted)
            return
        for device in record.devices:
            if not device.is_admin:
                holder = _build_holder(_describe(record, entry.found), device)
                yield from ((name, holder) for name, footprint in wanted.items() if footprint.overlaps(device.footprint))

    def _record_of(self, entry: _Entry) -> ClaimRecord | None:
        if isinstance(entry.found, Stored):
            return entry.found.record
        granted = self._read_granted(entry.uid) if entry.last_good is None else None
        return granted.record if granted is not None else entry.last_good

    def _read_entries(self) -> list[_Entry]:
        """The folder's records now; of a claim with a record and one that was set aside, the record."""
        with self._guard:
            try:
                self._entries = self._refresh()
            except OSError as err:
                raise StateUnwritable(f"reading the record folder {self._folder.folder}: {err}") from err
            entries = self._entries
        if not any(isinstance(entry.found, Corrupt) for entry in entries.values()):
            return list(entries.values())
        return list({entry.uid: entry for _, entry in sorted(entries.items())}.values())

    def _refresh(self) -> dict[str, _Entry]:
        seen: dict[str, _Entry] = {}
        with os.scandir(self._folder.folder) as files:
            for file in files:
                try:
                    stat = file.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
                known = self._entries.get(file.name)
                entry = known if known is not None and known.is_current(stamp) else self._parse(file.name, stamp)
                if entry is not None:
                    seen[file.name] = entry
        return seen

    def _parse(self, name: str, stamp: _Stamp) -> _Entry | None:
        """The file as an entry; None where it is no record's, or gone again."""
        stem, dot, suffix = name.partition(".")
        if f"{dot}{suffix}" not in store.SUFFIXES or not is_uid(stem):
            return None
        uid, now_ns = ClaimUID(stem), self._now_ns()
        try:
            found = store.read_file(f"{self._folder.folder}/{name}", uid)
        except FileNotFoundError:
            return None
        record = found.record if isinstance(found, Stored) else None
        return _Entry(
            stamp=stamp,
            parsed_at_ns=now_ns,
            uid=uid,
            found=found,
            last_good=record or self._last_good(uid),
            held=frozenset(device.gpu for device in record.devices if not device.is_admin) if record else frozenset(),
        )

    def _last_good(self, uid: ClaimUID) -> ClaimRecord | None:
        return next((entry.last_good for entry in self._entries.values() if entry.uid == uid and entry.last_good), None)


def _build_holder(who: str, device: RecordedDevice) -> Holder:
    return Holder(
        who=who,
        device=DeviceName(device.device),
        share_id=device.share_id,
        consumed_bytes=device.consumed_bytes,
        sharing=device.sharing,
    )


def _describe(record: ClaimRecord, found: Stored | Corrupt) -> str:
    state = record.state.value if isinstance(found, Stored) else "its record is corrupt"
    return f"{record.ref()} ({state})"


def _describe_corrupt(found: Stored | Corrupt) -> str:
    path = found.path if isinstance(found, Corrupt) else ""
    return f"an unreadable record ({path}), which may be of any device until it is mended"
