"""The DRA service's socket comes back when somebody takes it away, and calls that run do not notice."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable

import grpc
import pytest

from driver.pb.dra.v1 import api_pb2 as v1
from driver.pb.dra.v1 import api_pb2_grpc as v1_grpc
from driver.plugin.listener import build_target
from driver.plugin.server import PluginServer
from tests.component.plugin.node import Heard, PluginNode

EMPTY = v1.NodePrepareResourcesRequest()


def call(channel: grpc.Channel) -> None:
    v1_grpc.DRAPluginStub(channel).NodePrepareResources(EMPTY, timeout=5)


def connect(server: PluginServer) -> grpc.Channel:
    return grpc.insecure_channel(build_target(server.paths.service), options=(("grpc.use_local_subchannel_pool", 1),))


def wait(is_true: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 10
    while not is_true():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


@pytest.mark.parametrize("damage", ["socket removed", "folder removed", "another file in its place, then removed"])
def test_a_service_socket_that_was_taken_away_comes_back(node: PluginNode, damage: str) -> None:
    """Without it a restarted kubelet registers the plugin and can then prepare nothing."""
    heard = Heard()
    server = node.start(heard=heard)
    path = server.paths.service
    if damage == "folder removed":
        shutil.rmtree(path.parent, ignore_errors=True)  # the plugin may put its socket back before the folder is empty
    else:
        path.unlink()
    if damage.startswith("another"):
        path.write_text("in the way")
        wait(lambda: bool(heard.troubles))
        assert f"cannot put the service's socket {path} back" in heard.troubles[0]
        path.unlink()
    wait(path.is_socket)
    assert path.stat().st_mode & 0o077 == 0
    with connect(server) as channel:
        call(channel)
    assert server.is_live()
    assert node.stop(server)
    assert not path.exists()


def test_a_connection_from_before_moves_to_the_new_socket(node: PluginNode) -> None:
    """A call in the moment of the change may fail; the kubelet asks again."""
    server = node.start()
    with connect(server) as channel:
        call(channel)
        for _ in range(3):
            before = server.paths.service.stat().st_ino
            server.paths.service.unlink()
            wait(lambda gone=before: is_new(server, gone))  # type: ignore[misc]
            wait(lambda: is_served(channel))
    threads = threading.active_count()
    assert node.stop(server)
    assert threading.active_count() <= threads


def is_new(server: PluginServer, inode: int) -> bool:
    return server.paths.service.is_socket() and server.paths.service.stat().st_ino != inode


def is_served(channel: grpc.Channel) -> bool:
    try:
        call(channel)
    except grpc.RpcError:
        return False
    return True


def test_a_stop_does_not_bring_the_socket_back(node: PluginNode) -> None:
    server = node.start()
    assert node.stop(server)
    time.sleep(0.8)
    assert node.sockets() == set()
