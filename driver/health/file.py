"""``health.json``: what was known when the plugin ended. A restart puts no broken GPU back (B75 has no way back but that)."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sized
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from driver import log
from driver.errors import StateUnwritable
from driver.files import read_bounded, write_atomically
from driver.health.model import Trouble
from driver.health.state import MAX_GPUS, MAX_NUMBERS, MAX_TOLD, HealthState
from driver.names import is_dns_label

_LOG = log.logger(__name__)

FILE_NAME = "health.json"
MAX_BYTES = 4 * 1024 * 1024
_MAX_FOUND = 16
"""Troubles of one GPU that looks find; there are fewer kinds."""
MAX_COUNT = 2**64 - 1
"""NVML's numbers have no more bits, and JSON as it is written here no more either."""
_VERSION = 1
_LEAST_YEAR = 1970
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?", re.ASCII)


class HealthFile:
    """The file; an unusable one is set aside, never trusted and never lost."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._guard = threading.Lock()
        self._last: bytes | None = None

    def read(self) -> HealthState:
        """What was remembered; nothing is wrong where there is nothing, or nothing usable."""
        with self._guard:
            self._last = None
        return self.read_news() or HealthState()

    def read_news(self) -> HealthState | None:
        """What another instance has written since this one last read or wrote; None where there is nothing, or nothing usable.

        A file that is gone, or was set aside, is written again by the next ``write``.
        """
        with self._guard:
            try:
                text = read_bounded(self._path, MAX_BYTES)
            except FileNotFoundError:
                self._last = None
                return None
            except OSError as err:
                log.event(_LOG, log.ERROR, "cannot read what was known of the GPUs' health", path=self._path, error=err)
                return None
            if text == self._last:
                return None
            state = _decode(text)
            if isinstance(state, HealthState):
                self._last = text
                return state
            self._set_aside(state)
            return None

    def write(self, state: HealthState) -> None:
        """Remember; writes nothing when this was read or written last.

        Raises:
            StateUnwritable
        """
        text = msgspec.json.format(msgspec.json.encode(state), indent=1)
        with self._guard:
            if text == self._last:
                return
            try:
                write_atomically(self._path, text, mode=0o600, sync_folder=True)
            except OSError as err:
                raise StateUnwritable(f"remembering the GPUs' health in {self._path}: {err.strerror or err}") from err
            self._last = text

    def _set_aside(self, fault: str) -> None:
        self._last = None
        aside = self._path.with_name(f"{FILE_NAME}.corrupt")
        log.event(_LOG, log.ERROR, "the GPUs' health is unusable; set aside", path=self._path, aside=aside, fault=fault)
        try:
            self._path.replace(aside)
        except OSError as err:
            log.event(_LOG, log.ERROR, "cannot set it aside", path=self._path, error=err)


def _decode(text: bytes) -> HealthState | str:
    """The state; else what is wrong with the text."""
    try:
        state = msgspec.json.decode(text, type=HealthState)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as err:
        return str(err)
    return find_fault(state) or state


def find_fault(state: HealthState) -> str | None:
    """Why a state cannot be ours, if so: one illegal taint would cost the node its whole slice."""
    if state.version != _VERSION:
        return f"version {state.version} is not {_VERSION}"
    if len(state.gpus) > MAX_GPUS or len(state.troubles) > MAX_GPUS * (MAX_TOLD + _MAX_FOUND):
        return "it has more GPUs or troubles than any machine"
    if any(not _is_moment(each) for row in state.heard.values() for each in row.values()):
        return "an event was heard at no time that could be"
    if any(each.last_told is not None and not _is_moment(each.last_told) for each in state.gpus.values()):
        return "an event has no time that could be"
    if (fault := _find_fault_of_names(state)) is not None:
        return fault
    return next((fault for fault in map(_find_fault_of_trouble, state.troubles) if fault is not None), None)


def _find_fault_of_names(state: HealthState) -> str | None:
    strange = next((name for name in (*state.gpus, *state.counts, *state.heard) if not is_dns_label(name)), None)
    if strange is not None:
        return f"{strange[:80]!r} is no device name"
    if _is_too_wide(state.counts, MAX_NUMBERS) or _is_too_wide(state.heard, MAX_NUMBERS + 1):
        return "it counts more XIDs than any GPU has"
    numbers = (
        *(number for row in state.counts.values() for number in (*row, *row.values())),
        *(number for row in state.heard.values() for number in row),
    )
    return None if all(0 <= number <= MAX_COUNT for number in numbers) else "it counts what cannot be counted"


def _is_too_wide(rows: Mapping[str, Sized], most: int) -> bool:
    return len(rows) > MAX_GPUS or any(len(row) > most for row in rows.values())


def _find_fault_of_trouble(trouble: Trouble) -> str | None:
    if not is_dns_label(trouble.device):
        return f"{trouble.device[:80]!r} is no device name"
    if _VALUE.fullmatch(trouble.value) is None:
        return f"{trouble.value[:80]!r} is no value of a taint"
    if not _is_moment(trouble.since):
        return f"a trouble of {trouble.device} has no time that could be"
    return None


def _is_moment(at: datetime) -> bool:
    """Written in UTC, and with a year of four digits: as a taint's time it must be legal."""
    return at.utcoffset() == timedelta(0) and at.year >= _LEAST_YEAR
