"""One MPS daemon: running, or gone with everything that it had. Each is safe to do twice, and to be killed in."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from driver import log
from driver.errors import DeviceNotReady
from driver.files import is_still_at, make_folder
from driver.mps import process
from driver.mps.daemon_files import MAX_MEETING_BYTES, PROGRAM, DaemonFiles, DaemonSpec, build_commands
from driver.mps.launch import Tools, read_tail, start_process, tell, unmount, write_library_links

_LOG = log.logger(__name__)

READY_S = 10.0
"""How long a daemon may take to answer. The claim waits in a thread of its own, and holds nothing but its own GPUs."""
_ASK_S = 2.0
_QUIT_S = 3.0
_TERM_S = 2.0
_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.2
_REFUSALS = ("invalid", "error", "fail", "unknown", "cannot", "not supported")


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemons:
    """All daemons below one folder. ``find_tools`` looks at the driver's files at each start: it may have been upgraded."""

    root: Path
    find_tools: Callable[[], Tools]
    isolates: bool
    """Whether daemons get a ``/dev/shm`` of their own, which takes CAP_SYS_ADMIN."""
    ready_s: float = READY_S

    def files(self, name: str) -> DaemonFiles:
        """Where a daemon's files lie."""
        return DaemonFiles(root=self.root, name=name)

    def start(self, spec: DaemonSpec) -> process.Identity:
        """Have the daemon run and know its limits; one that runs is told them again.

        Raises:
            DeviceNotReady: it cannot be started, ends, refuses a limit, or does not answer in time. It is stopped then.
        """
        files = self.files(spec.name)
        _require_short(files)
        tools = self.find_tools()
        try:
            with self._locked(files):
                _make_folders(files)
                try:
                    return self._run(spec, files, tools)
                except DeviceNotReady:
                    self._stop_held(files, tools)
                    files.lock.unlink(missing_ok=True)
                    raise
        except OSError as err:
            raise DeviceNotReady(f"MPS daemon {spec.name} in {files.folder}: {err}") from err

    def restart(self, spec: DaemonSpec) -> process.Identity | None:
        """``start`` for a daemon that has died; None where it is not wanted any more.

        Raises:
            DeviceNotReady: not now.
        """
        files = self.files(spec.name)
        tools = self.find_tools()
        try:
            if not files.folder.is_dir():
                return None
            with self._locked(files):
                return self._run(spec, files, tools) if files.folder.is_dir() else None
        except OSError as err:
            raise DeviceNotReady(f"MPS daemon {spec.name} in {files.folder}: {err}") from err

    def stop(self, name: str) -> None:
        """End the daemon and its servers, and delete what it had.

        Raises:
            DeviceNotReady: a process or a file stays.
        """
        files = self.files(name)
        try:
            if not files.folder.is_dir():
                return
            with self._locked(files):
                self._stop_held(files, self._find_tools_or_none())
                files.lock.unlink(missing_ok=True)
        except OSError as err:
            raise DeviceNotReady(f"stopping the MPS daemon {name} in {files.folder}: {err}") from err

    def read_identity(self, name: str) -> process.Identity | None:
        """The daemon's process, if it runs."""
        identity = process.read_identity(self.files(name).identity)
        return identity if identity is not None and process.is_alive(identity) else None

    def list_names(self) -> tuple[str, ...]:
        """Every daemon that has a folder."""
        try:
            return tuple(sorted(entry.name for entry in os.scandir(self.root) if entry.is_dir(follow_symlinks=False)))
        except FileNotFoundError:
            return ()

    def _run(self, spec: DaemonSpec, files: DaemonFiles, tools: Tools) -> process.Identity:
        until = time.monotonic() + self.ready_s
        child = None
        pause_s = _FIRST_PAUSE_S
        while time.monotonic() < until:
            identity = self.read_identity(spec.name)
            if identity is not None:
                said = tell(spec, files, tools, build_commands(spec), _ASK_S)
                if said is not None:
                    _refuse(spec, said)
                    return identity
            elif child is None:
                child = self._launch(spec, files, tools)
            elif child.poll() is not None:
                process.reap(child.pid)
                raise DeviceNotReady(
                    f"the MPS daemon {spec.name} ended with {child.returncode} instead of serving {', '.join(spec.uuids)}: "
                    f"{_last_words(files) or 'it said nothing'}"
                )
            _pause(identity, child, pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        raise DeviceNotReady(
            f"the MPS daemon {spec.name} has not answered for {self.ready_s:g} s: {_last_words(files) or 'it said nothing'}"
        )

    def _launch(self, spec: DaemonSpec, files: DaemonFiles, tools: Tools) -> subprocess.Popen[bytes]:
        if files.identity.exists():
            _end_servers(files)
            files.identity.unlink()
        _empty(files.pipe)
        files.meeting.unlink(missing_ok=True)
        files.meeting.symlink_to(files.pipe)
        write_library_links(files, tools)
        child = start_process(spec, files, tools, isolates=self.isolates)
        process.own(child)
        return child

    def _stop_held(self, files: DaemonFiles, tools: Tools | None) -> None:
        identity = process.read_identity(files.identity)
        if identity is not None and process.is_alive(identity):
            if tools is not None:
                tell(DaemonSpec(name=files.name, uuids=()), files, tools, ["quit"], _QUIT_S)
            if not process.wait_end(identity, _TERM_S if tools is not None else 0.0):
                process.send(identity, signal.SIGTERM)
                if not process.wait_end(identity, _TERM_S):
                    process.send(identity, signal.SIGKILL)
                    process.wait_end(identity, _TERM_S)
        _end_servers(files)
        files.meeting.unlink(missing_ok=True)
        unmount(files.shared_memory)
        shutil.rmtree(files.folder)

    def _find_tools_or_none(self) -> Tools | None:
        """Without the driver's program there are signals."""
        try:
            return self.find_tools()
        except DeviceNotReady:
            return None

    @contextlib.contextmanager
    def _locked(self, files: DaemonFiles) -> Iterator[None]:
        """Against another instance of the plugin, and another thread of this one. The file may be deleted by its holder."""
        make_folder(self.root, mode=0o711)
        while True:
            descriptor = os.open(files.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if is_still_at(files.lock, descriptor):
                    yield
                    return
            finally:
                os.close(descriptor)


def _require_short(files: DaemonFiles) -> None:
    size = len(os.fsencode(files.meeting))
    if size > MAX_MEETING_BYTES:
        raise DeviceNotReady(
            f"MPS sockets in {files.meeting}: the folder's path has {size} bytes, at most {MAX_MEETING_BYTES} leave room for "
            "their names; --mps-dir must be shorter"
        )


def _make_folders(files: DaemonFiles) -> None:
    for folder, mode in ((files.folder, 0o711), (files.log, 0o755), (files.pipe, 0o755), (files.shared_memory, 0o1777)):
        folder.mkdir(exist_ok=True)
        folder.chmod(mode)


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)


def _refuse(spec: DaemonSpec, said: str) -> None:
    for line in said.splitlines():
        if any(word in line.casefold() for word in _REFUSALS):
            raise DeviceNotReady(f"the MPS daemon {spec.name} refuses its limits: {line.strip()[:200]}")


def _pause(identity: process.Identity | None, child: subprocess.Popen[bytes] | None, pause_s: float) -> None:
    """Wait, but not for a process that has ended."""
    if identity is not None:
        process.wait_end(identity, pause_s)
    elif child is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(pause_s)
    else:
        threading.Event().wait(pause_s)


def _end_servers(files: DaemonFiles) -> None:
    """A daemon that was killed leaves its servers behind, and they the GPU in use."""
    for identity in process.find_by_variable("CUDA_MPS_PIPE_DIRECTORY", str(files.meeting)):
        log.event(_LOG, log.WARNING, "ending what is left of an MPS daemon", daemon=files.name, pid=identity.pid)
        process.send(identity, signal.SIGKILL)
        process.wait_end(identity, _TERM_S)


def _last_words(files: DaemonFiles) -> str:
    return read_tail(files.output) or read_tail(files.log / "control.log")


__all__ = ["PROGRAM", "READY_S", "Daemons"]
