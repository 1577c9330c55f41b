"""The folder of CDI files: one a claim. Others' files are never touched.

A file is ours when its name has our form **and** its annotation names this driver on this node: several plugins, of this
driver or another, may share one folder (R30).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from driver import files
from driver.cdi import names
from driver.cdi import spec as cdi_spec
from driver.cdi.spec import CdiSpec, SpecInvalid
from driver.errors import StateUnwritable
from driver.files import StrPath
from driver.names import ClaimUID, is_uid

OWNER_ANNOTATION = "gpu-dra.io/owner"
RECORD_ANNOTATION = "gpu-dra.io/record"
"""The claim's record, so that a record that became unreadable can be made again (R12)."""

SPEC_MAX_BYTES = 4 * 1024 * 1024
_MODE = 0o644
_FOLDER_MODE = 0o755
_PREFIX = f"{names.CLAIM_KIND.replace('/', '-')}_"
_SUFFIX = ".json"


class CdiStore:
    """The claims' files in one folder. ``owner`` is ``<driver>/<node>``."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._folder = folder
        self._prefix = os.path.join(folder, _PREFIX)
        self._owner = owner

    def start(self) -> None:
        """Make the folder, and delete what a killed process left half written.

        Raises:
            StateUnwritable
        """
        try:
            self._make_folder()
            files.delete_leftovers(self._folder, _PREFIX)
        except OSError as err:
            raise StateUnwritable(
                f"CDI folder {self._folder}: {err}; it must be writable and among the runtime's cdi_spec_dirs"
            ) from err

    def path(self, uid: ClaimUID) -> str:
        """Where the claim's file is."""
        return f"{self._prefix}{names.validate_uid(uid)}{_SUFFIX}"

    def write(self, uid: ClaimUID, spec: CdiSpec) -> None:
        """Put the claim's file there, whole. A folder that is gone is made again (B13).

        It need not last through a loss of power: the boot id is another one then, and every file is written afresh (R24).

        Raises:
            StateUnwritable
        """
        owned = CdiSpec(
            kind=spec.kind,
            annotations={**spec.annotations, OWNER_ANNOTATION: self._owner},
            devices=spec.devices,
            container_edits=spec.container_edits,
        )
        path = self.path(uid)
        try:
            data = cdi_spec.encode_spec(owned)
            try:
                files.write_atomically(path, data, mode=_MODE, sync_file=False, sync_folder=False, has_one_writer=True)
            except FileNotFoundError:
                self._make_folder()
                files.write_atomically(path, data, mode=_MODE, sync_file=False, sync_folder=False, has_one_writer=True)
        except SpecInvalid as err:
            raise StateUnwritable(f"CDI file {path}: {err}") from err
        except OSError as err:
            raise StateUnwritable(
                f"writing CDI file {path}: {err}; the folder must be writable and among the runtime's cdi_spec_dirs"
            ) from err

    def delete(self, uid: ClaimUID) -> None:
        """Take the claim's file away; that there is none is success (B03).

        Raises:
            StateUnwritable: it cannot be deleted, or another owner's annotation is in it.
        """
        path = self.path(uid)
        try:
            owner = self._read_owner(path)
            if owner is not None and owner != self._owner:
                raise StateUnwritable(f"CDI file {path} belongs to {owner[:200]!r}, not to {self._owner!r}; it is left alone")
            files.delete(path)
        except OSError as err:
            raise StateUnwritable(f"deleting CDI file {path}: {err}; the claim keeps its devices until this works") from err

    def read_record(self, uid: ClaimUID) -> bytes | None:
        """The claim's record from its file's annotation; None where there is no such file of ours.

        Raises:
            StateUnwritable: the folder cannot be read.
        """
        path = self.path(uid)
        try:
            found = cdi_spec.decode_annotations(files.read_bounded(path, SPEC_MAX_BYTES))
        except (FileNotFoundError, files.NotPlainFile, SpecInvalid):
            return None
        except OSError as err:
            raise StateUnwritable(f"reading CDI file {path}: {err}") from err
        text = found.get(RECORD_ANNOTATION)
        return text.encode() if text is not None and found.get(OWNER_ANNOTATION) == self._owner else None

    def is_same_grant(self, uid: ClaimUID, spec: CdiSpec) -> bool:
        """Whether the claim's file does to a container what ``spec`` does; False where there is none.

        Raises:
            StateUnwritable: the folder cannot be read.
        """
        path = self.path(uid)
        try:
            return cdi_spec.is_same_grant(files.read_bounded(path, SPEC_MAX_BYTES), spec)
        except (FileNotFoundError, files.NotPlainFile):
            return False
        except OSError as err:
            raise StateUnwritable(f"reading CDI file {path}: {err}") from err

    def list_own(self) -> tuple[ClaimUID, ...]:
        """The claims that have a file of ours here, by uid.

        Raises:
            StateUnwritable: the folder cannot be read.
        """
        try:
            return tuple(sorted(uid for uid, path in self._scan() if self._read_owner(path) == self._owner))
        except OSError as err:
            raise StateUnwritable(f"reading CDI folder {self._folder}: {err}") from err

    def _scan(self) -> Iterator[tuple[ClaimUID, Path]]:
        for path in self._folder.glob(f"{_PREFIX}*{_SUFFIX}"):
            uid = path.name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
            if is_uid(uid):
                yield ClaimUID(uid), path

    def _read_owner(self, path: StrPath) -> str | None:
        """Whose file it is; None where there is none, or where it does not say."""
        try:
            return cdi_spec.decode_annotations(files.read_bounded(path, SPEC_MAX_BYTES)).get(OWNER_ANNOTATION)
        except (FileNotFoundError, files.NotPlainFile, SpecInvalid):
            return None

    def _make_folder(self) -> None:
        files.make_folder(self._folder, mode=_FOLDER_MODE)
