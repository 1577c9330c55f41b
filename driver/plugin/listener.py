"""A gRPC server on a unix socket whose file appears complete and leaves only by its owner.

gRPC binds a hidden name, the file gets its mode, the server starts, and then the file is renamed to its real one. So whoever
sees the file can connect, at no moment does anybody else have access, and gRPC, which removes by name what it bound, can
never remove a socket that another server has put in place meanwhile (R15).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import urllib.parse
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc

from driver.errors import SocketUnusable
from driver.plugin import sockets
from driver.plugin.instance import is_socket

MAX_MESSAGE_BYTES = 1 << 20
"""A call of the kubelet names the claims of one pod; the largest that is possible is a few dozen kilobytes."""
SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.so_reuseport", 0),
)
"""Nothing here closes an idle connection: the kubelet keeps one for days, and some versions hang when it ends (B57)."""

_generations: Iterator[int] = itertools.count()


def make_server(name: str, *, max_workers: int, max_calls: int) -> grpc.Server:
    """A server without a port. Its threads are made as calls come; a call beyond ``max_calls`` is refused at once."""
    pool = futures.ThreadPoolExecutor(max_workers, thread_name_prefix=name)
    return grpc.server(pool, options=SERVER_OPTIONS, maximum_concurrent_rpcs=max_calls)


def build_target(path: Path) -> str:
    """The path in gRPC's words: a URI, so that "%41" in a folder's name stays what it is."""
    return "unix:" + urllib.parse.quote(os.fsencode(path))


class UnixListener:
    """``server`` on the socket at ``path``; opened and closed once."""

    def __init__(self, server: grpc.Server, path: Path) -> None:
        self.path = path
        self._server = server
        self._hidden = sockets.build_hidden_path(path, next(_generations))
        self._bound: os.stat_result | None = None

    def open(self) -> None:
        """Bind, start, and put the socket in its place.

        Raises:
            SocketUnusable: the folder refuses a socket, or something that is no socket stands at the path.
        """
        if os.path.lexists(self.path) and not is_socket(self.path):
            raise SocketUnusable(f"serving {self.path}: something that is not a socket stands there; remove it")
        try:
            self._hidden.unlink(missing_ok=True)
            self._server.add_insecure_port(build_target(self._hidden))
            self._hidden.chmod(0o600)
            self._bound = self._hidden.lstat()
            self._server.start()
            self._hidden.rename(self.path)
        except (OSError, RuntimeError) as err:
            self._server.stop(None)
            with contextlib.suppress(OSError):
                self._hidden.unlink()
            raise SocketUnusable(f"serving {self.path}: {_first_line(err)}") from err

    def is_in_place(self) -> bool:
        """True while the file at the path is the socket that this server listens on."""
        try:
            return self._bound is not None and os.path.samestat(self._bound, self.path.lstat())
        except OSError:
            return False

    def remove_file(self) -> None:
        """Take the socket away, if it is still ours: nobody new comes in, calls that run go on."""
        if self.is_in_place():
            self.path.unlink(missing_ok=True)

    def retire(self, grace_s: float) -> None:
        """As ``stop``, without waiting for it."""
        self._server.stop(grace_s)

    def stop(self, grace_s: float | None) -> None:
        """Refuse new calls, give running ones ``grace_s``, cancel the rest; returns when the last one has its answer."""
        self._server.stop(grace_s).wait()


def _first_line(err: BaseException) -> str:
    text = str(err)
    return text.splitlines()[0][:300] if text else type(err).__name__
