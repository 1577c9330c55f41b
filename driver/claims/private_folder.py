"""Folders that are root's alone."""

from __future__ import annotations

from pathlib import Path

from driver.errors import StateUnwritable

_MODE = 0o700


def make_private_folder(folder: Path, what: str) -> None:
    """Make ``folder``, and those above it, unless it is there. ``what`` names it for people: ``the lock folder``.

    Raises:
        StateUnwritable
    """
    try:
        folder.mkdir(mode=_MODE, parents=True, exist_ok=True)
    except OSError as err:
        raise StateUnwritable(f"making {what} {folder}: {err.strerror or err}; it must be writable") from err
