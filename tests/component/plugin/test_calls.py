"""The kubelet's calls over a real socket: answers, both authorities, reconnects, and callers that go."""

from __future__ import annotations

import threading
import urllib.parse
from concurrent import futures

import grpc
import pytest

from driver.errors import DeviceInUse
from driver.pb.dra.v1 import api_pb2 as v1
from driver.pb.dra.v1 import api_pb2_grpc as v1_grpc
from driver.plugin.listener import MAX_MESSAGE_BYTES, build_target
from driver.plugin.server import PluginServer
from tests.component.plugin.node import DRIVER, PluginNode
from tests.fakes.claim_service import ScriptedClaimService, SlowClaimService, build_devices, make_claim, make_uid
from tests.fakes.kubelet import CallFailed, FakeKubelet, Manners


def call_empty(server: PluginServer, *options: tuple[str, str]) -> v1.NodePrepareResourcesResponse:
    with grpc.insecure_channel(build_target(server.paths.service), options=options) as channel:
        return v1_grpc.DRAPluginStub(channel).NodePrepareResources(v1.NodePrepareResourcesRequest(), timeout=30)


def test_claims_are_prepared_and_released_over_the_socket(node: PluginNode) -> None:
    service = ScriptedClaimService()
    node.start(claim_service=service)
    claims = [make_claim(number) for number in range(3)]
    with FakeKubelet(node.registry_dir) as kubelet:
        kubelet.wait_registered(DRIVER)
        assert kubelet.prepare(DRIVER, claims) == {claim.uid: build_devices(claim.uid) for claim in claims}
        assert service.prepared == {claim.uid for claim in claims}
        kubelet.unprepare(DRIVER, claims)
        assert service.prepared == set()
        assert kubelet.prepare(DRIVER, []) == {}


def test_a_claims_error_reaches_the_pod_in_its_own_words(node: PluginNode) -> None:
    node.start(claim_service=ScriptedClaimService(answers={make_uid(2): DeviceInUse("gpu-0 is held by claim a/b")}))
    with FakeKubelet(node.registry_dir) as kubelet:
        kubelet.wait_registered(DRIVER)
        with pytest.raises(
            CallFailed, match=r"^NodePrepareResources failed for ResourceClaim claim-2: gpu-0 is held by claim a/b$"
        ):
            kubelet.prepare(DRIVER, [make_claim(1), make_claim(2)])
        assert kubelet.prepare(DRIVER, [make_claim(1)])


@pytest.mark.parametrize("form", ["localhost", "percent-encoded path"])
def test_both_forms_of_authority_are_served(node: PluginNode, form: str) -> None:
    """The kubelet dials the registration socket with one and the service with the other."""
    server = node.start()
    authority = "localhost" if form == "localhost" else urllib.parse.quote(str(server.paths.service), safe="")
    assert not call_empty(server, ("grpc.default_authority", authority)).claims


def test_fifty_reconnects_are_served(node: PluginNode) -> None:
    """B57: a caller connects, is idle, drops, and comes again."""
    server = node.start()
    for _ in range(50):
        assert not call_empty(server).claims


def test_a_connection_that_was_idle_is_still_served(node: PluginNode) -> None:
    server = node.start()
    with grpc.insecure_channel(build_target(server.paths.service)) as channel:
        stub = v1_grpc.DRAPluginStub(channel)
        stub.NodePrepareResources(v1.NodePrepareResourcesRequest(), timeout=30)
        states: list[grpc.ChannelConnectivity] = []
        channel.subscribe(states.append)
        threading.Event().wait(0.5)
        stub.NodePrepareResources(v1.NodePrepareResourcesRequest(), timeout=30)
        assert set(states) <= {grpc.ChannelConnectivity.READY}


def test_fifty_six_callers_at_once_are_all_served(node: PluginNode) -> None:
    service = ScriptedClaimService()
    node.start(claim_service=service)
    with FakeKubelet(node.registry_dir) as kubelet, futures.ThreadPoolExecutor(56) as pool:
        kubelet.wait_registered(DRIVER)
        answers = list(pool.map(lambda number: kubelet.prepare(DRIVER, [make_claim(number)]), range(56)))
    assert answers == [{make_uid(number): build_devices(make_uid(number))} for number in range(56)]


def test_a_caller_that_stops_waiting_is_noticed_by_its_prepare(node: PluginNode) -> None:
    """A prepare that outlived its call takes no effect (R8); the next one for the same claim does."""
    service = SlowClaimService()
    node.start(claim_service=service)
    with FakeKubelet(node.registry_dir, Manners(call_timeout_s=0.5)) as kubelet:
        kubelet.wait_registered(DRIVER)
        with pytest.raises(CallFailed):
            kubelet.prepare(DRIVER, [make_claim(1)])
        assert kubelet.wait(lambda: service.rolled_back == {make_uid(1)})
        assert service.prepared == set()
        service.finish.set()
        assert kubelet.prepare(DRIVER, [make_claim(1)], timeout_s=30)
        assert service.prepared == {make_uid(1)}


def test_an_answer_comes_before_the_caller_stops_waiting(node: PluginNode) -> None:
    """The work's deadline lies before the call's: the pod gets a reason, not a bare DEADLINE_EXCEEDED."""
    node.start(claim_service=SlowClaimService())
    with FakeKubelet(node.registry_dir) as kubelet:
        kubelet.wait_registered(DRIVER)
        with pytest.raises(CallFailed, match="the call ended first; undone"):
            kubelet.prepare(DRIVER, [make_claim(1)], timeout_s=6)


def test_a_message_beyond_the_bound_is_refused_and_the_next_one_served(node: PluginNode) -> None:
    server = node.start()
    with grpc.insecure_channel(build_target(server.paths.service)) as channel:
        stub = v1_grpc.DRAPluginStub(channel)
        huge = v1.NodePrepareResourcesRequest(claims=[v1.Claim(name="x" * MAX_MESSAGE_BYTES)])
        with pytest.raises(grpc.RpcError) as refusal:
            stub.NodePrepareResources(huge, timeout=30)
        assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert not stub.NodePrepareResources(v1.NodePrepareResourcesRequest(), timeout=30).claims


def test_a_method_that_is_not_ours_is_unimplemented(node: PluginNode) -> None:
    server = node.start()
    with grpc.insecure_channel(build_target(server.paths.service)) as channel:
        method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/k8s.io.kubelet.pkg.apis.dra.v9.DRAPlugin/NodePrepareResources"
        )
        with pytest.raises(grpc.RpcError) as refusal:
            method(b"", timeout=30)
    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED
