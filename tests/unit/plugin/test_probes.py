"""The probe service: one question a name, asked anew each time."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from driver.errors import SettingsInvalid
from driver.pb.grpc_health.v1 import health_pb2
from driver.plugin.probes import ProbeService, parse_unix_path
from tests.fakes.grpc_context import Aborted, FakeContext


def check(service: ProbeService, name: str) -> str:
    response = service.Check(health_pb2.HealthCheckRequest(service=name), FakeContext().as_grpc())
    return health_pb2.HealthCheckResponse.ServingStatus.Name(response.status)


def test_each_name_has_its_own_answer_which_may_change() -> None:
    is_ready = [False, True]
    service = ProbeService({"readiness": lambda: is_ready.pop(0), "liveness": lambda: True})
    assert [check(service, "readiness"), check(service, "liveness"), check(service, "readiness")] == [
        "NOT_SERVING",
        "SERVING",
        "SERVING",
    ]


def test_an_unknown_name_is_not_found_and_told_the_known_ones() -> None:
    with pytest.raises(Aborted, match="there are '', 'liveness'") as refusal:
        check(ProbeService({"": lambda: True, "liveness": lambda: True}), "readyness")
    assert refusal.value.code is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("address", "path"),
    [("unix:/run/gpu-dra/probe.sock", Path("/run/gpu-dra/probe.sock")), ("0.0.0.0:51516", None), ("[::]:51516", None)],
    ids=["unix", "IPv4", "IPv6"],
)
def test_an_address_is_a_socket_or_a_network_address(address: str, path: Path | None) -> None:
    assert parse_unix_path(address) == path


@pytest.mark.parametrize("address", ["unix:probe.sock", "unix:", f"unix:/{'x' * 107}"], ids=["relative", "empty", "108 bytes"])
def test_a_socket_that_cannot_be_is_refused(address: str) -> None:
    with pytest.raises(SettingsInvalid, match="at most 107 bytes"):
        parse_unix_path(address)
