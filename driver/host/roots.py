"""Where the machine's files are looked up, and what the container runtime calls the same places."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """The folders that stand for the machine. On a mock they lie in its stand-in root; all are settings.

    ``*_on_host`` is the same folder as the container runtime sees it: this is what goes into CDI files. It differs from the
    first where this program runs in a container that has the host's folder mounted elsewhere.
    """

    dev: Path = Path("/dev")
    dev_on_host: Path = Path("/dev")
    sys: Path = Path("/sys")
    proc: Path = Path("/proc")
    driver: Path = Path("/")
    driver_on_host: Path = Path("/")
