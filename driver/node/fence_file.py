"""``fence.json``: whose the devices are, and what may still be under way, over restarts and between two instances."""

from __future__ import annotations

from pathlib import Path

import msgspec

from driver import log
from driver.errors import StateUnwritable
from driver.files import read_bounded, write_atomically
from driver.node.fence import FenceRecord
from driver.resourceslice.attributes import Allocator

_LOG = log.logger(__name__)

FILE_NAME = "fence.json"
_MAX_BYTES = 16 * 1024
_VERSION = 1


class FenceFile:
    """The file. It is read each time: another instance may have written it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME

    def read(self) -> FenceRecord | None:
        """The record; None where there is none. One that cannot be understood is set aside, and then there is none.

        Raises:
            StateUnwritable: the disk does not answer: nothing is known, which is not the same as nothing being there.
        """
        try:
            text = read_bounded(self._path, _MAX_BYTES)
        except FileNotFoundError:
            return None
        except OSError as err:
            raise StateUnwritable(f"reading who allocates the devices from {self._path}: {err.strerror or err}") from err
        record = decode_record(text)
        if isinstance(record, FenceRecord):
            return record
        self._set_aside(record)
        return None

    def write(self, record: FenceRecord) -> None:
        """Put it on disk, whole, before it is acted on.

        Raises:
            StateUnwritable
        """
        try:
            write_atomically(self._path, encode_record(record), mode=0o600, sync_folder=True)
        except OSError as err:
            raise StateUnwritable(f"remembering who allocates the devices in {self._path}: {err.strerror or err}") from err

    def _set_aside(self, fault: str) -> None:
        aside = self._path.with_name(f"{FILE_NAME}.corrupt")
        log.event(_LOG, log.ERROR, "the record of who allocates the devices is unusable; set aside", aside=aside, fault=fault)
        try:
            self._path.replace(aside)
        except OSError as err:
            raise StateUnwritable(f"setting the unusable {self._path} aside: {err.strerror or err}") from err


def encode_record(record: FenceRecord) -> bytes:
    """The JSON text of a record."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1)


def decode_record(text: bytes) -> FenceRecord | str:
    """What ``encode_record`` wrote; else what is wrong with the text."""
    if len(text) > _MAX_BYTES:
        return f"longer than {_MAX_BYTES} bytes"
    try:
        record = msgspec.json.decode(text, type=FenceRecord)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as err:
        return str(err)
    if record.version != _VERSION:
        return f"version {record.version} is not {_VERSION}"
    is_possible = {
        Allocator.SCHEDULER: record.scheduler_may_hold,
        Allocator.DRAINING: True,
        Allocator.CONTROLLER: record.controller_may_hold and not record.scheduler_may_hold,
    }
    return record if is_possible[record.state] else f"{record.state.value} cannot be with what it says may be under way"
