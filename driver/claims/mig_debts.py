"""MIG instances whose claim is gone and that could not be removed, as files: one a place on a GPU (R29).

They go on blocking their place, and are removed when the driver is back. A boot removes every instance by itself.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from driver import files, log
from driver.claims.mig_record import RecordedMig
from driver.claims.model import ClaimRef
from driver.claims.private_folder import make_private_folder
from driver.claims.record import ClaimRecord
from driver.errors import StateUnwritable
from driver.names import ClaimUID

_LOG = log.logger(__name__)

_MAX_BYTES = 16 * 1024
_MODE = 0o600


class Debt(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One instance that is still to be removed, and the claim that it was made for."""

    mig: RecordedMig
    is_mode_only: bool = False
    """The instance is gone, but the GPU is still in MIG mode: its place is free again."""
    boot_id: str
    namespace: str
    name: str
    uid: str

    def ref(self) -> ClaimRef:
        """The claim, which is gone."""
        return ClaimRef(namespace=self.namespace, name=self.name, uid=ClaimUID(self.uid))


@dataclass(frozen=True, slots=True)
class MigDebts:
    """The folder of them. Callers hold the GPU's lock to write."""

    folder: Path

    def start(self) -> None:
        """Make the folder.

        Raises:
            StateUnwritable
        """
        make_private_folder(self.folder, "the folder of MIG instances to be removed")

    def add(self, mig: RecordedMig, record: ClaimRecord, *, is_mode_only: bool = False) -> None:
        """Remember the instance.

        Raises:
            StateUnwritable
        """
        debt = Debt(
            mig=mig,
            is_mode_only=is_mode_only,
            boot_id=record.epoch.boot_id,
            namespace=record.namespace,
            name=record.name,
            uid=record.uid,
        )
        try:
            files.write_atomically(self._path(debt), msgspec.json.encode(debt), mode=_MODE, sync_folder=True)
        except OSError as err:
            raise StateUnwritable(f"remembering a MIG instance to be removed in {self.folder}: {err}") from err

    def delete(self, debt: Debt) -> None:
        """The instance is gone.

        Raises:
            StateUnwritable
        """
        try:
            self._path(debt).unlink(missing_ok=True)
        except OSError as err:
            raise StateUnwritable(f"forgetting a MIG instance that was removed, in {self.folder}: {err}") from err

    def read_all(self) -> tuple[Debt, ...]:
        """All of them.

        Raises:
            StateUnwritable
        """
        try:
            found = sorted(name for name in os.listdir(self.folder) if name.endswith(".json") and not name.startswith("."))
        except FileNotFoundError:
            return ()
        except OSError as err:
            raise StateUnwritable(f"reading {self.folder}: {err}") from err
        return tuple(debt for debt in (_read(self.folder / name) for name in found) if debt is not None)

    def _path(self, debt: Debt) -> Path:
        mig = debt.mig
        return self.folder / f"{mig.gpu}-{'mode' if debt.is_mode_only else f'p{mig.profile_id}-{mig.start}'}.json"


def _read(path: Path) -> Debt | None:
    with contextlib.suppress(FileNotFoundError):
        try:
            return msgspec.json.decode(files.read_bounded(path, _MAX_BYTES), type=Debt)
        except (msgspec.MsgspecError, files.NotPlainFile, UnicodeDecodeError, RecursionError, OSError) as err:
            log.event(_LOG, log.ERROR, "a MIG instance to be removed cannot be read: look at the file", path=path, error=err)
    return None
