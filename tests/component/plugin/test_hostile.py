"""What no kubelet sends: random bytes on the socket, random messages in it. Each ends in a clear answer, with the plugin up."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from driver.pb.dra.v1 import api_pb2 as v1
from driver.pb.dra.v1 import api_pb2_grpc as v1_grpc
from driver.pb.pluginregistration.v1 import api_pb2 as registration
from driver.pb.pluginregistration.v1 import api_pb2_grpc as registration_grpc
from driver.plugin.listener import build_target
from driver.plugin.server import PluginServer
from tests.component.plugin.node import PluginNode
from tests.fakes.claim_service import ScriptedClaimService, make_claim

OFTEN = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
EMPTY_SETTINGS = b"\0\0\0\x04\0\0\0\0\0"

WORDS = st.text(max_size=40) | st.sampled_from(["default", "..", "/", "a" * 300, "\0", make_claim().name, make_claim().uid])
CLAIMS = st.lists(
    st.builds(lambda namespace, name, uid: v1.Claim(namespace=namespace, name=name, uid=uid), WORDS, WORDS, WORDS)
)


@pytest.fixture
def server(node: PluginNode) -> PluginServer:
    """A plugin that prepares whatever it is asked."""
    return node.start(claim_service=ScriptedClaimService())


@pytest.fixture
def channel(server: PluginServer) -> Iterator[grpc.Channel]:
    """A connection to its service."""
    with grpc.insecure_channel(build_target(server.paths.service)) as one:
        yield one


def send_raw(path: Path, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as raw, contextlib.suppress(OSError):
        raw.settimeout(10)
        raw.connect(str(path))
        raw.sendall(data)


def is_up(server: PluginServer) -> bool:
    with grpc.insecure_channel(build_target(server.paths.registration)) as own:
        info = registration_grpc.RegistrationStub(own).GetInfo(registration.InfoRequest(), timeout=30)
    return server.is_live() and info.name == "gpu.nvidia.com"


@OFTEN
@given(data=st.binary(max_size=2000) | st.binary(max_size=500).map(lambda tail: HTTP2_PREFACE + EMPTY_SETTINGS + tail))
@example(data=HTTP2_PREFACE + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01")
@example(data=b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
@example(data=b"")
def test_bytes_that_are_no_grpc_end_their_own_connection_only(server: PluginServer, data: bytes) -> None:
    send_raw(server.paths.service, data)
    send_raw(server.paths.registration, data)
    assert is_up(server)


@OFTEN
@given(data=st.binary(max_size=300))
@example(data=b"\x0a\x02\x12\xff")
@example(data=b"\x0a" * 200)
def test_bytes_that_are_no_message_are_refused_by_their_own_call(
    server: PluginServer, channel: grpc.Channel, data: bytes
) -> None:
    """Some are a message by chance; the answer then has an entry for each claim in it."""
    name = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
    method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(name)
    try:
        answer = v1.NodePrepareResourcesResponse.FromString(method(data, timeout=30))
    except grpc.RpcError as err:
        code = err.code()
    else:
        code = grpc.StatusCode.OK
        asked = v1.NodePrepareResourcesRequest.FromString(data)
        assert set(answer.claims) == {claim.uid for claim in asked.claims}
    assert code in {grpc.StatusCode.OK, grpc.StatusCode.INTERNAL}
    assert server.is_live()


@OFTEN
@given(claims=CLAIMS)
def test_every_uid_of_a_strange_call_has_an_entry_and_only_good_claims_are_prepared(
    server: PluginServer, channel: grpc.Channel, claims: list[v1.Claim]
) -> None:
    stub = v1_grpc.DRAPluginStub(channel)
    prepared = stub.NodePrepareResources(v1.NodePrepareResourcesRequest(claims=claims), timeout=30)
    released = stub.NodeUnprepareResources(v1.NodeUnprepareResourcesRequest(claims=claims), timeout=30)
    asked = {claim.uid for claim in claims}
    assert (set(prepared.claims), set(released.claims)) == (asked, asked)
    done = {uid for uid, entry in prepared.claims.items() if not entry.error}
    assert done <= {make_claim().uid}
    assert all(bool(entry.devices) is not bool(entry.error) for entry in prepared.claims.values())


@OFTEN
@given(is_registered=st.booleans(), error=st.text(max_size=50))
def test_strange_notifications_leave_the_registration_in_a_known_phase(
    server: PluginServer, is_registered: bool, error: str
) -> None:
    with grpc.insecure_channel(build_target(server.paths.registration)) as channel:
        status = registration.RegistrationStatus(plugin_registered=is_registered, error=error)
        registration_grpc.RegistrationStub(channel).NotifyRegistrationStatus(status, timeout=30)
    reason = server.registration().reason
    assert reason == ("" if is_registered else error or "the kubelet gave no reason")


def test_many_connections_that_say_nothing_do_not_stop_the_service(server: PluginServer) -> None:
    silent = [socket.socket(socket.AF_UNIX) for _ in range(200)]
    try:
        for each in silent:
            each.connect(str(server.paths.service))
        assert is_up(server)
    finally:
        for each in silent:
            each.close()
