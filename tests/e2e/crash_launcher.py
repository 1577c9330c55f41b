"""Run ``gpu-dra`` so that it can be killed before any one of its writes: a process that dies between two steps, on demand.

Python tells an audit hook of each file that is opened for writing, renamed, removed, or made. When the file named by
``E2E_CRASH`` holds ``N``, the process kills itself with SIGKILL before the N-th such event below the folders named by
``E2E_CRASH_BELOW`` (colon-separated), and first writes what it was about to do into ``<file>.done``. So every step of
prepare and unprepare is met without the driver knowing of it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from driver.cli.main import main

_CHANGES = {"os.rename": 2, "os.remove": 1, "os.rmdir": 1, "os.mkdir": 2, "os.link": 2, "os.truncate": None, "os.chmod": 2}
"""Each event, and which of its arguments is the descriptor of the folder that the name is relative to (-1: none)."""
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class CrashPoint:
    """Counts changes once it is armed, and ends the process at the chosen one."""

    def __init__(self, control: Path, below: tuple[str, ...]) -> None:
        self._control, self._below = str(control), below
        self._left: int | None = None
        self._lock = threading.Lock()
        self._inside = threading.local()

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        """The audit hook."""
        if event not in _CHANGES and event != "open":
            return
        if getattr(self._inside, "busy", False) or not self._is_counted(event, arguments):
            return
        self._inside.busy = True
        try:
            with self._lock:
                self._count(f"{event} {' '.join(str(each) for each in arguments if isinstance(each, str | Path))}")
        finally:
            self._inside.busy = False

    def _is_counted(self, event: str, arguments: tuple[object, ...]) -> bool:
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITE_FLAGS):
            return False
        target = arguments[0]
        if isinstance(target, int) or not isinstance(target, str | bytes | os.PathLike):
            return False
        name = os.fsdecode(target)
        place = _CHANGES.get(event)
        if not name.startswith("/") and place is not None and arguments[place] != -1:
            name = f"{Path(f'/proc/self/fd/{arguments[place]}').readlink()}/{name}"
        return name.startswith(self._below)

    def _count(self, what: str) -> None:
        try:
            armed = int(Path(self._control).read_text())
        except (FileNotFoundError, ValueError):
            self._left = None
            return
        self._left = (armed if self._left is None else self._left) - 1
        if self._left <= 0:
            Path(f"{self._control}.done").write_text(what)
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.addaudithook(CrashPoint(Path(os.environ["E2E_CRASH"]), tuple(os.environ["E2E_CRASH_BELOW"].split(":"))))
    sys.exit(main())
