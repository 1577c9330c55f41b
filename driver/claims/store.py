"""The folder of records: one file a claim, named by its uid and, by how it ends, what has become of it.

``<uid>.json`` is a record, ``<uid>.ending`` one whose claim's unprepare has begun, ``<uid>.corrupt`` one that cannot be read.
An unprepare begins with a rename: whatever else the record says stays as it is, and nothing waits for the disk.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from driver import files
from driver.cdi import names as cdi_names
from driver.claims import record as claim_record
from driver.claims.record import ClaimRecord, RecordInvalid, State
from driver.errors import StateUnwritable
from driver.names import ClaimUID

RECORD_SUFFIX = ".json"
ENDING_SUFFIX = ".ending"
CORRUPT_SUFFIX = ".corrupt"
SUFFIXES = (RECORD_SUFFIX, ENDING_SUFFIX, CORRUPT_SUFFIX)
"""In the order in which they are looked for: a rename goes down this list, so that no reader misses the file."""
_MODE = 0o600
_FOLDER_MODE = 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A record, with the body as it stands on disk: a rewrite keeps what this version does not know."""

    record: ClaimRecord
    body: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrupt:
    """A record that cannot be read. Its devices stay blocked."""

    uid: ClaimUID
    path: str
    why: str


class RecordFolder:
    """Reads and writes the records of one plugin folder. Callers hold the claim's lock to write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._prefix = os.path.join(folder, "")

    def start(self) -> None:
        """Make the folder, and delete what a killed process left half written.

        Raises:
            StateUnwritable
        """
        with self._named_errors("making"):
            self.folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            files.delete_leftovers(self.folder, "")

    def read(self, uid: ClaimUID) -> Stored | Corrupt | None:
        """The claim's record as it stands on disk now.

        Raises:
            StateUnwritable: the disk refuses to say.
        """
        with self._named_errors("reading", uid):
            for suffix in SUFFIXES:
                try:
                    return read_file(self._path(uid, suffix), uid)
                except FileNotFoundError:
                    continue
        return None

    def write(self, record: ClaimRecord, *, onto: Mapping[str, Any] | None = None) -> None:
        """Put the record on disk, whole; a file that was set aside for this claim goes.

        A record that holds devices is also made to last through a loss of power. That an unprepare began need not be: after a
        reboot the kubelet begins it again.

        Raises:
            StateUnwritable
        """
        uid = ClaimUID(record.uid)
        try:
            data = claim_record.encode_record(record, onto)
        except RecordInvalid as err:
            raise StateUnwritable(f"{record.ref()}: this claim cannot be recorded, and so not be prepared: {err}") from err
        must_last = record.state is not State.UNPREPARE_STARTED
        with self._named_errors("writing", uid):
            files.write_atomically(self._path(uid, RECORD_SUFFIX), data, mode=_MODE, sync_folder=must_last, has_one_writer=True)
            files.delete(self._path(uid, CORRUPT_SUFFIX))

    def mark_ending(self, uid: ClaimUID) -> bool:
        """Say that an unprepare of the claim has begun; False where it has no record that can be read.

        Raises:
            StateUnwritable
        """
        with self._named_errors("renaming", uid):
            try:
                os.rename(self._path(uid, RECORD_SUFFIX), self._path(uid, ENDING_SUFFIX))
            except FileNotFoundError:
                return False
        return True

    def delete(self, uid: ClaimUID) -> None:
        """Drop the claim's record and what was set aside for it; that there is none is success.

        Raises:
            StateUnwritable
        """
        with self._named_errors("deleting", uid):
            for suffix in SUFFIXES:
                files.delete(self._path(uid, suffix))
            files.sync(self.folder)

    def set_aside(self, corrupt: Corrupt) -> Corrupt:
        """Rename a corrupt record, so that nothing overwrites it by accident; it goes on blocking its devices (R12).

        Raises:
            StateUnwritable
        """
        with self._named_errors("setting aside", corrupt.uid):
            aside = self._path(corrupt.uid, CORRUPT_SUFFIX)
            if corrupt.path != aside:
                os.replace(corrupt.path, aside)
                files.sync(self.folder)
        return Corrupt(uid=corrupt.uid, path=aside, why=corrupt.why)

    def _path(self, uid: ClaimUID, suffix: str) -> str:
        return f"{self._prefix}{cdi_names.validate_uid(uid)}{suffix}"

    @contextlib.contextmanager
    def _named_errors(self, doing: str, uid: ClaimUID | None = None) -> Iterator[None]:
        what = f"the record of claim {uid} in {self.folder}" if uid else f"the record folder {self.folder}"
        try:
            yield
        except OSError as err:
            raise StateUnwritable(f"{doing} {what}: {err}; look at the disk and at the folder's owner") from err


def read_file(path: str, uid: ClaimUID) -> Stored | Corrupt:
    """What the file at ``path``, which should be the record of ``uid``, holds.

    Raises:
        OSError: also FileNotFoundError, when another process was faster.
    """
    if path.endswith(CORRUPT_SUFFIX):
        os.lstat(path)
        return Corrupt(uid=uid, path=path, why="it was set aside before")
    try:
        record, body = claim_record.decode_record(files.read_bounded(path, claim_record.RECORD_MAX_BYTES))
    except (RecordInvalid, files.NotPlainFile) as err:
        return Corrupt(uid=uid, path=path, why=str(err))
    if record.uid != uid:
        return Corrupt(uid=uid, path=path, why=f"it is the record of claim {record.uid}")
    if path.endswith(ENDING_SUFFIX):
        record = msgspec.structs.replace(record, state=State.UNPREPARE_STARTED)
    return Stored(record=record, body=body)
