"""``inventory.json``: what this node published last, so that a GPU that fell off the bus keeps its device (R23)."""

from __future__ import annotations

import threading
from pathlib import Path

from driver import log
from driver.errors import StateUnwritable
from driver.files import read_bounded, write_atomically
from driver.resourceslice.inventory import INVENTORY_MAX_BYTES, Inventory, decode_inventory, encode_inventory

_LOG = log.logger(__name__)

FILE_NAME = "inventory.json"


class InventoryFile:
    """The file; an unusable one is set aside, never trusted and never lost."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._guard = threading.Lock()
        self._last: tuple[tuple[int, int, int], Inventory] | None = None
        """What was decoded last, and of which file: a node of MIG devices reads it several times a pass."""

    def read(self) -> Inventory:
        """What was remembered; empty where there is nothing, or nothing usable."""
        stamp, last = self._read_stamp(), self._last
        if last is not None and last[0] == stamp:
            return last[1]
        inventory = self._read_file()
        self._last = None if stamp is None else (stamp, inventory)
        return inventory

    def _read_stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read_file(self) -> Inventory:
        try:
            text = read_bounded(self._path, INVENTORY_MAX_BYTES)
        except FileNotFoundError:
            return Inventory()
        except OSError as err:
            log.event(_LOG, log.ERROR, "cannot read what was published before", path=self._path, error=err)
            return Inventory()
        decoded = decode_inventory(text)
        if decoded.fault is not None:
            self._set_aside(decoded.fault)
        return decoded.inventory

    def write(self, inventory: Inventory) -> None:
        """Remember; writes nothing when the file says it already.

        Raises:
            StateUnwritable
        """
        text = encode_inventory(inventory)
        with self._guard:
            try:
                if self._path.exists() and read_bounded(self._path, INVENTORY_MAX_BYTES) == text:
                    return
                write_atomically(self._path, text, mode=0o600, sync_folder=True)
                self._last = None
            except OSError as err:
                raise StateUnwritable(f"remembering the published devices in {self._path}: {err.strerror or err}") from err

    def _set_aside(self, fault: str) -> None:
        aside = self._path.with_name(f"{FILE_NAME}.corrupt")
        log.event(
            _LOG, log.ERROR, "what was published before is unusable; set aside", path=self._path, aside=aside, fault=fault
        )
        try:
            self._path.replace(aside)
        except OSError as err:
            log.event(_LOG, log.ERROR, "cannot set it aside", path=self._path, error=err)
