"""Probes over a socket and over TCP: ready means registered, live means that calls come through."""

from __future__ import annotations

import threading
from dataclasses import replace

import grpc
import pytest

from driver.errors import SocketUnusable
from driver.pb.grpc_health.v1 import health_pb2, health_pb2_grpc
from driver.plugin.probes import ProbeServer
from tests.component.plugin.node import DRIVER, Heard, PluginNode
from tests.fakes.claim_service import SlowClaimService, make_claim
from tests.fakes.kubelet import FakeKubelet, Manners


def check(address: str, service: str) -> str:
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        response = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=30)
    return health_pb2.HealthCheckResponse.ServingStatus.Name(response.status)


def test_a_plugin_is_live_from_the_start_and_ready_once_registered(node: PluginNode) -> None:
    address, heard = f"unix:{node.root}/probe.sock", Heard()
    server = node.start(node.settings(probe_address=address), heard=heard)
    assert [check(address, name) for name in ("", "readiness", "liveness")] == ["NOT_SERVING", "NOT_SERVING", "SERVING"]
    with FakeKubelet(node.registry_dir) as kubelet:
        kubelet.wait_registered(DRIVER)
        assert kubelet.wait(server.is_ready)
        assert [check(address, name) for name in ("", "readiness", "liveness")] == ["SERVING"] * 3
        heard.is_ready = False
        assert [check(address, name) for name in ("readiness", "liveness")] == ["NOT_SERVING", "SERVING"]


def test_a_plugin_whose_workers_are_all_stuck_is_not_live(node: PluginNode) -> None:
    service = SlowClaimService()
    server = node.start(replace(node.settings(), max_workers=1, self_call_s=1.0), service)
    with FakeKubelet(node.registry_dir, Manners(health_services=())) as kubelet:
        kubelet.wait_registered(DRIVER)
        caller = threading.Thread(target=kubelet.prepare, args=(DRIVER, [make_claim()]))
        caller.start()
        assert service.begun.acquire(timeout=30)
        assert not server.is_live()
        service.finish.set()
        caller.join()
        assert kubelet.wait(server.is_live)


def test_a_network_address_is_served_too(node: PluginNode) -> None:
    """The kubelet's own grpc probes can only do this form."""
    probe = ProbeServer("127.0.0.1:0", {"": lambda: True})
    probe.start()
    assert check(f"127.0.0.1:{probe.port}", "") == "SERVING"
    taken = ProbeServer(f"127.0.0.1:{probe.port}", {"": lambda: True})
    with pytest.raises(SocketUnusable, match="is it in use"):
        taken.start()
    taken.stop()
    probe.stop()


def test_watch_is_unimplemented_as_the_standard_allows(node: PluginNode) -> None:
    probe = ProbeServer("127.0.0.1:0", {"": lambda: True})
    probe.start()
    with grpc.insecure_channel(f"127.0.0.1:{probe.port}") as channel:
        watch: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream("/grpc.health.v1.Health/Watch")
        stream = watch(b"", timeout=30)
        with pytest.raises(grpc.RpcError) as refusal:
            next(stream)
    probe.stop()
    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED
