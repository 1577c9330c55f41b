"""The folder of records: one file a claim, named by its uid and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driver import files
from driver.cdi import names as cdi_names
from driver.claims import record as claim_record
from driver.claims.record import ClaimRecord, RecordInvalid, State
from driver.errors import StateUnwritable
from driver.names import ClaimUID

RECORD_SUFFIX = ".json"
CORRUPT_SUFFIX = ".corrupt"
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
    path: Path
    why: str


class RecordFolder:
    """Reads and writes the records of one plugin folder. Callers hold the claim's lock to write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

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
            for suffix in (RECORD_SUFFIX, CORRUPT_SUFFIX):
                path = self._path(uid, suffix)
                with contextlib.suppress(FileNotFoundError):
                    return read_file(path, uid)
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
            files.write_atomically(self._path(uid, RECORD_SUFFIX), data, mode=_MODE, sync_folder=must_last)
            self._path(uid, CORRUPT_SUFFIX).unlink(missing_ok=True)

    def delete(self, uid: ClaimUID) -> None:
        """Drop the claim's record and what was set aside for it; that there is none is success.

        Raises:
            StateUnwritable
        """
        with self._named_errors("deleting", uid):
            for suffix in (RECORD_SUFFIX, CORRUPT_SUFFIX):
                self._path(uid, suffix).unlink(missing_ok=True)
            files.sync(self.folder)

    def set_aside(self, corrupt: Corrupt) -> Corrupt:
        """Rename a corrupt record, so that nothing overwrites it by accident; it goes on blocking its devices (R12).

        Raises:
            StateUnwritable
        """
        with self._named_errors("setting aside", corrupt.uid):
            aside = self._path(corrupt.uid, CORRUPT_SUFFIX)
            if corrupt.path != aside:
                corrupt.path.replace(aside)
                files.sync(self.folder)
        return Corrupt(uid=corrupt.uid, path=aside, why=corrupt.why)

    def _path(self, uid: ClaimUID, suffix: str) -> Path:
        return self.folder / f"{cdi_names.validate_uid(uid)}{suffix}"

    @contextlib.contextmanager
    def _named_errors(self, doing: str, uid: ClaimUID | None = None) -> Iterator[None]:
        what = f"the record of claim {uid} in {self.folder}" if uid else f"the record folder {self.folder}"
        try:
            yield
        except OSError as err:
            raise StateUnwritable(f"{doing} {what}: {err}; look at the disk and at the folder's owner") from err


def read_file(path: Path, uid: ClaimUID) -> Stored | Corrupt:
    """What the file at ``path``, which should be the record of ``uid``, holds.

    Raises:
        OSError: also FileNotFoundError, when another process was faster.
    """
    if path.suffix == CORRUPT_SUFFIX:
        path.lstat()
        return Corrupt(uid=uid, path=path, why="it was set aside before")
    try:
        record, body = claim_record.decode_record(files.read_bounded(path, claim_record.RECORD_MAX_BYTES))
    except (RecordInvalid, files.NotPlainFile) as err:
        return Corrupt(uid=uid, path=path, why=str(err))
    if record.uid != uid:
        return Corrupt(uid=uid, path=path, why=f"it is the record of claim {record.uid}")
    return Stored(record=record, body=body)
