"""A server's socket file: complete when it appears, private, exact in its length, and removed by its owner alone."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import grpc
import pytest

from driver.errors import SocketUnusable
from driver.pb.grpc_health.v1 import health_pb2, health_pb2_grpc
from driver.plugin.listener import UnixListener, build_target, make_server
from driver.plugin.probes import ProbeService


def make_listener(path: Path) -> UnixListener:
    server = make_server("test", max_workers=2, max_calls=4)
    health_pb2_grpc.add_HealthServicer_to_server(ProbeService({"": lambda: True}), server)
    return UnixListener(server, path)


def names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def answers(path: Path) -> bool:
    with grpc.insecure_channel(build_target(path)) as channel:
        try:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
        except grpc.RpcError:
            return False
    return True


def test_a_socket_is_private_whatever_the_umask(root: Path) -> None:
    before = os.umask(0)
    try:
        listener = make_listener(root / "a.sock")
        listener.open()
    finally:
        os.umask(before)
    assert stat.S_IMODE((root / "a.sock").lstat().st_mode) == 0o600
    assert answers(root / "a.sock")
    assert names(root) == ["a.sock"]
    listener.remove_file()
    listener.stop(None)
    assert names(root) == []


def test_whoever_sees_the_file_can_connect_and_nobody_else_could_before(root: Path) -> None:
    """The file appears by rename: no moment with an open mode, none without a server behind it."""
    path, seen = root / "a.sock", []
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            try:
                seen.append(stat.S_IMODE(path.lstat().st_mode))
            except FileNotFoundError:
                continue

    watcher = threading.Thread(target=look)
    watcher.start()
    for _ in range(10):
        listener = make_listener(path)
        listener.open()
        assert answers(path)
        listener.remove_file()
        listener.stop(None)
    is_over.set()
    watcher.join()
    assert set(seen) <= {0o600}


def test_the_stop_of_an_old_server_leaves_the_socket_of_a_new_one(root: Path) -> None:
    """GRPC alone would unlink it (R15)."""
    path = root / "a.sock"
    old, new = make_listener(path), make_listener(path)
    old.open()
    new.open()
    assert (old.is_in_place(), new.is_in_place()) == (False, True)
    old.remove_file()
    old.stop(None)
    assert answers(path)
    new.remove_file()
    new.stop(None)


def test_a_stale_socket_is_replaced_and_anything_else_is_not(root: Path) -> None:
    old = make_listener(root / "a.sock")
    old.open()
    old.stop(None)
    new = make_listener(root / "a.sock")
    new.open()
    assert answers(root / "a.sock")
    new.stop(None)
    (root / "file.sock").write_text("somebody's")
    (root / "link.sock").symlink_to(root / "a.sock")
    for name in ("file.sock", "link.sock"):
        with pytest.raises(SocketUnusable, match="something that is not a socket stands there; remove it"):
            make_listener(root / name).open()
    assert (root / "file.sock").read_text() == "somebody's"


@pytest.mark.parametrize("filler", ["a", "é", "字"], ids=["ascii", "two bytes", "three bytes"])
@pytest.mark.parametrize("size", [106, 107], ids=["106 bytes", "107 bytes"])
def test_a_path_up_to_the_limit_serves(root: Path, filler: str, size: int) -> None:
    """B56, with the real bind and a real connection."""
    room = size - len(os.fsencode(root)) - len("/")
    width = len(filler.encode())
    path = root / (filler * (room // width) + "a" * (room % width))
    assert len(os.fsencode(path)) == size
    listener = make_listener(path)
    listener.open()
    assert answers(path)
    listener.remove_file()
    listener.stop(None)


@pytest.mark.parametrize("name", ["a b", "a%41", "a?b#c", "é"], ids=["blank", "percent", "query", "beyond ascii"])
def test_a_folder_with_letters_that_mean_something_in_a_uri_serves(root: Path, name: str) -> None:
    folder = root / name
    folder.mkdir()
    listener = make_listener(folder / "a.sock")
    listener.open()
    assert answers(folder / "a.sock")
    assert names(folder) == ["a.sock"]
    listener.remove_file()
    listener.stop(None)


@pytest.mark.parametrize("case", ["no folder", "a file for a folder"])
def test_a_folder_that_takes_no_socket_is_said_in_one_line(root: Path, case: str) -> None:
    (root / "file").touch()
    path = root / ("none" if case == "no folder" else "file") / "a.sock"
    with pytest.raises(SocketUnusable) as refusal:
        make_listener(path).open()
    assert str(refusal.value).startswith(f"serving {path}: ")
    assert "\n" not in str(refusal.value)
