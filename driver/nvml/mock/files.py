"""Files of the mock's state directory, written so that a reader sees the old or the new one, never a part."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def _build_temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")


def write_file(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Makes ``path`` hold ``data``; does not touch a file that does already."""
    try:
        if not path.is_symlink() and path.read_bytes() == data:
            return
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _build_temporary(path)
    temporary.write_bytes(data)
    temporary.chmod(mode)
    temporary.replace(path)


def write_link(path: Path, target: str) -> None:
    """Makes ``path`` a symbolic link to ``target``; does not touch one that is."""
    if path.is_symlink() and os.readlink(path) == target:  # noqa: PTH115 - the text, not a Path that has lost its form
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _build_temporary(path)
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(path)
