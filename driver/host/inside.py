"""Paths below a root that is another system's ``/``: links in it mean that system's files, never this one's."""

from __future__ import annotations

import errno
import os
from pathlib import Path, PurePosixPath

_MOST_LINKS = 40
"""As the kernel has it."""


def resolve_inside(root: Path, inside: str) -> PurePosixPath:
    """Follows every link of ``inside`` as if ``root`` were ``/``, and gives the path below ``root`` (relative) that it ends at.

    An absolute link starts again at ``root``, and ``..`` stops there, so the answer never leaves it (B53).

    Raises:
        OSError: a part does not exist or cannot be read, or links go round.
    """
    done: list[str] = []
    ahead = [part for part in reversed(inside.split("/")) if part not in ("", ".")]
    links = 0
    while ahead:
        part = ahead.pop()
        if part == "..":
            del done[-1:]
            continue
        target = _read_link(root.joinpath(*done, part))
        if target is None:
            done.append(part)
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(root / inside))
        if target.startswith("/"):
            done.clear()
        ahead += [step for step in reversed(target.split("/")) if step not in ("", ".")]
    return PurePosixPath(*done)


def _read_link(path: Path) -> str | None:
    """Where a link points; None for what is there and is no link."""
    try:
        return os.readlink(path)  # noqa: PTH115  (Path.readlink would tidy away a trailing "/..")
    except OSError as err:
        if err.errno == errno.EINVAL:
            return None
        raise
