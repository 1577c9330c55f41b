"""Calls to a running plugin as the kubelet makes them, for what the kubelet itself would never send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import grpc

from driver.pb.dra.v1 import api_pb2, api_pb2_grpc
from hack.devcluster.processes import wait_until
from tests.e2e.kube import Json

CALL_TIMEOUT_S = 45.0
"""The kubelet's own."""


class CallFailed(Exception):
    """The whole call failed: the plugin died, or is not there."""


def claim_message(body: Json, *, uid: str = "") -> api_pb2.Claim:
    """How the kubelet names a claim."""
    metadata = body["metadata"]
    return api_pb2.Claim(namespace=metadata["namespace"], name=metadata["name"], uid=uid or metadata["uid"])


def call_prepare(socket: Path, claims: Sequence[api_pb2.Claim]) -> Mapping[str, api_pb2.NodePrepareResourceResponse]:
    """NodePrepareResources; answers by uid.

    Raises:
        CallFailed: no answer at all.
    """
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        stub = api_pb2_grpc.DRAPluginStub(channel)
        try:
            request = api_pb2.NodePrepareResourcesRequest(claims=claims)
            answer = stub.NodePrepareResources(request, timeout=CALL_TIMEOUT_S, wait_for_ready=True)
        except grpc.RpcError as err:
            raise CallFailed(f"NodePrepareResources at {socket}: {err}") from err
        return dict(answer.claims)


def prepare_until_done(socket: Path, claim: api_pb2.Claim, *, timeout_s: float = 30.0) -> api_pb2.NodePrepareResourceResponse:
    """Ask for one claim again and again, as the kubelet does; the first good answer, or the last bad one."""
    answer = api_pb2.NodePrepareResourceResponse()

    def is_done() -> bool:
        nonlocal answer
        answer = call_prepare(socket, [claim])[claim.uid]
        return not answer.error

    wait_until(is_done, timeout_s=timeout_s, interval_s=0.2)
    return answer


def call_unprepare(socket: Path, claims: Sequence[api_pb2.Claim]) -> Mapping[str, str]:
    """NodeUnprepareResources; errors by uid, empty where all is well.

    Raises:
        CallFailed: no answer at all.
    """
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        stub = api_pb2_grpc.DRAPluginStub(channel)
        try:
            request = api_pb2.NodeUnprepareResourcesRequest(claims=claims)
            answer = stub.NodeUnprepareResources(request, timeout=CALL_TIMEOUT_S, wait_for_ready=True)
        except grpc.RpcError as err:
            raise CallFailed(f"NodeUnprepareResources at {socket}: {err}") from err
        return {uid: each.error for uid, each in answer.claims.items()}


def cdi_ids(answer: api_pb2.NodePrepareResourceResponse) -> tuple[str, ...]:
    """Everything that the runtime is told to inject."""
    return tuple(each for device in answer.devices for each in device.cdi_device_ids)
