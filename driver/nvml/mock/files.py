"""Files of the mock's state directory, written so that a reader sees the old or the new one, never a part."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from driver.files import write_atomically


def write_file(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Makes ``path`` hold ``data``; does not touch a file that does already."""
    try:
        if not path.is_symlink() and path.read_bytes() == data:
            return
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, data, mode=mode, sync_file=False, sync_folder=False)


def write_link(path: Path, target: str) -> None:
    """Makes ``path`` a symbolic link to ``target``; does not touch one that is."""
    if path.is_symlink() and os.readlink(path) == target:  # noqa: PTH115 - the text, not a Path that has lost its form
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(path)
