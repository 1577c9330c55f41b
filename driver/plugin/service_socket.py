"""The DRA service's socket, kept in its place.

The kubelet goes on using its connection when the file is gone, but can never make another: after its restart it registers the
plugin, and no claim can be prepared or released on the node until the plugin is restarted too. So a file that was taken away
is made anew, by a new server; the old one ends its running calls and sends its callers to the new one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import grpc

from driver import log
from driver.errors import SocketUnusable
from driver.plugin.folder_watch import FolderWatch
from driver.plugin.instance import make_private_folder
from driver.plugin.listener import UnixListener

_LOG = log.logger(__name__)

SETTLE_S = 0.5
"""A file that vanished is put back after this, so that a folder that is being wiped is wiped by then."""
MAX_RETRY_S = 30.0
OLD_CALLS_S = 45.0
"""How long the calls of the old server may take to end: as long as the kubelet waits."""
_STOP_S = 2.0


class ServiceSocket:
    """Opened and closed once. ``make_server`` makes a server without a port; ``on_trouble`` is told what cannot be mended."""

    def __init__(self, make_server: Callable[[], grpc.Server], path: Path, on_trouble: Callable[[str], None]) -> None:
        self._make_server = make_server
        self._path = path
        self._on_trouble = on_trouble
        self._listener = UnixListener(make_server(), path)
        self._watch = FolderWatch(path.parent)
        self._is_stopping = False
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="service-socket", daemon=True)

    def open(self) -> None:
        """Serve.

        Raises:
            SocketUnusable: the socket cannot be had.
        """
        self._listener.open()
        self._thread.start()

    def remove_file(self) -> None:
        """Take the socket away, and no longer put it back: nobody new comes in, calls that run go on."""
        with self._guard:
            self._is_stopping = True
            self._listener.remove_file()
        self._watch.wake()
        if self._thread.ident is not None:
            self._thread.join(_STOP_S)

    def stop(self, grace_s: float) -> None:
        """After ``remove_file``: refuse new calls, give running ones ``grace_s``, cancel the rest."""
        self._listener.stop(grace_s)
        if not self._thread.is_alive():
            self._watch.close()

    def _run(self) -> None:
        retry_s = SETTLE_S
        while not self._is_stopping:
            self._watch.arm()
            if self._listener.is_in_place():
                self._watch.wait(None)
                continue
            self._watch.wait(SETTLE_S)
            try:
                self._put_back()
                retry_s = SETTLE_S
            except Exception as err:  # noqa: BLE001 - the outermost loop of this thread; it must go on trying
                retry_s = min(2 * retry_s, MAX_RETRY_S)
                self._tell(err, retry_s)
                self._watch.wait(retry_s)

    def _put_back(self) -> None:
        with self._guard:
            if self._is_stopping or self._listener.is_in_place():
                return
            log.event(_LOG, log.WARNING, "the service's socket is gone; making it anew", socket=self._path)
            make_private_folder(self._path.parent)
            new = UnixListener(self._make_server(), self._path)
            new.open()
            old, self._listener = self._listener, new
        old.retire(OLD_CALLS_S)
        log.event(_LOG, log.INFO, "the service's socket is back", socket=self._path)

    def _tell(self, err: Exception, retry_s: float) -> None:
        message = (
            f"cannot put the service's socket {self._path} back, next try in {retry_s:.0f} s: {err}; until then the "
            "kubelet can prepare and release claims only over the connection it has"
        )
        is_known = isinstance(err, OSError | SocketUnusable)
        log.event(_LOG, log.ERROR, "the service's socket cannot be put back", detail=message, exc=None if is_known else err)
        self._on_trouble(message)
