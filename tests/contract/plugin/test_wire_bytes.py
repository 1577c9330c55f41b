"""Calls as bytes, put together by hand: what a kubelet in the field sends, and what it needs to find in the answer.

The stubs on both sides come from our own proto files, so a slip there would go unseen by every test that uses them. Here each
field's number, type and method name is written once more, from the kubelet's own files (Kubernetes 1.37.2).
"""

from __future__ import annotations

from typing import TypeAlias

import grpc
import pytest

from driver.plugin.server import PluginServer
from tests.fakes.claim_service import make_claim, make_uid

Fields: TypeAlias = "list[tuple[int, int | bytes]]"
Unary: TypeAlias = "grpc.UnaryUnaryMultiCallable[bytes, bytes]"


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def text(field: int, value: str | bytes) -> bytes:
    """A string, or a message, as field ``field``."""
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return number, at
        shift += 7


def read(data: bytes) -> Fields:
    """The fields of a message: number and value, in order."""
    fields: Fields = []
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        size, at = read_varint(data, at)
        if tag & 7 == 0:
            fields.append((tag >> 3, size))
        else:
            assert tag & 7 == 2
            fields.append((tag >> 3, data[at : at + size]))
            at += size
    return fields


def as_bytes(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def read_map(data: bytes) -> dict[bytes, Fields]:
    """A ``map<string, message> claims = 1``."""
    entries = [dict(read(as_bytes(entry))) for field, entry in read(data) if field == 1]
    return {as_bytes(entry[1]): read(as_bytes(entry.get(2, b""))) for entry in entries}


def claims_request(*numbers: int) -> bytes:
    claims = [make_claim(number) for number in numbers]
    return b"".join(text(1, text(1, each.namespace) + text(2, each.uid) + text(3, each.name)) for each in claims)


def call(channel: grpc.Channel, method: str, request: bytes) -> bytes:
    unary: Unary = channel.unary_unary(method)
    return unary(request, timeout=30)


def test_get_info(registration_channel: grpc.Channel, plugin: PluginServer) -> None:
    """``PluginInfo {type = 1, name = 2, endpoint = 3, repeated supported_versions = 4}``."""
    assert read(call(registration_channel, "/pluginregistration.Registration/GetInfo", b"")) == [
        (1, b"DRAPlugin"),
        (2, b"gpu.nvidia.com"),
        (3, str(plugin.paths.service).encode()),
        (4, b"v1.DRAPlugin"),
        (4, b"v1beta1.DRAPlugin"),
        (4, b"v1.DRAResourceHealth"),
        (4, b"v1alpha1.DRAResourceHealth"),
    ]


def test_notify_registration_status(registration_channel: grpc.Channel, plugin: PluginServer) -> None:
    """``RegistrationStatus {bool plugin_registered = 1, error = 2}``; the answer is empty."""
    method = "/pluginregistration.Registration/NotifyRegistrationStatus"
    assert call(registration_channel, method, text(2, "no handler")) == b""
    assert plugin.registration().reason == "no handler"
    assert call(registration_channel, method, b"\x08\x01") == b""
    assert plugin.registration().count == 1


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_prepare(service_channel: grpc.Channel, version: str) -> None:
    """``Claim {namespace = 1, uid = 2, name = 3}``.

    ``Device {request_names = 1, pool_name = 2, device_name = 3, cdi_device_ids = 4}``.
    """
    method = f"/k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin/NodePrepareResources"
    answer = read_map(call(service_channel, method, claims_request(1, 2)))
    device = [(1, b"gpu"), (2, b"node-a"), (3, b"gpu-0"), (4, f"k8s.gpu.nvidia.com/claim={make_uid(1)}-gpu-0".encode())]
    assert [(field, read(as_bytes(value))) for field, value in answer.pop(make_uid(1).encode())] == [(1, device)]
    assert answer == {make_uid(2).encode(): [(2, b"held")]}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_unprepare(service_channel: grpc.Channel, version: str) -> None:
    """``NodeUnprepareResourceResponse {error = 1}``, and an entry even where there is nothing to say."""
    method = f"/k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin/NodeUnprepareResources"
    answer = read_map(call(service_channel, method, claims_request(1, 2)))
    assert answer == {make_uid(1).encode(): [], make_uid(2).encode(): [(1, b"held")]}


@pytest.mark.parametrize(("version", "timeout"), [("v1", [(4, 300)]), ("v1alpha1", [])])
def test_health(service_channel: grpc.Channel, version: str, timeout: Fields) -> None:
    """``DeviceHealth {device = 1 {pool_name = 1, device_name = 2}, health = 2, last_updated_time = 3, timeout = 4}``."""
    watch: grpc.UnaryStreamMultiCallable[bytes, bytes] = service_channel.unary_stream(
        f"/{version}.DRAResourceHealth/NodeWatchResources"
    )
    stream = watch(b"", timeout=30)
    ((devices, health),) = read(next(stream))
    stream.cancel()
    assert (devices, read(as_bytes(health))) == (1, [(1, text(1, "node-a") + text(2, "gpu-0")), (2, 2), (3, 1), *timeout])
