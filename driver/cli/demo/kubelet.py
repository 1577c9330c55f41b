"""The kubelet's side of the plugin's sockets: finds the registration socket, registers, and calls for claims."""

from __future__ import annotations

import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from driver.claims.model import ClaimRef
from driver.errors import DriverError
from driver.pb.dra.v1 import api_pb2 as dra
from driver.pb.dra.v1 import api_pb2_grpc as dra_grpc
from driver.pb.pluginregistration.v1 import api_pb2 as registration
from driver.pb.pluginregistration.v1 import api_pb2_grpc as registration_grpc
from driver.plugin.listener import build_target

CALL_S = 10.0


class DemoFailed(DriverError):
    """A part of the demo did not do what it was asked for in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What the plugin said of itself."""

    name: str
    endpoint: str
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the plugin said about one claim: CDI ids for each request, or an error."""

    cdi_ids: Mapping[str, tuple[str, ...]]
    error: str


class DemoKubelet:
    """Knows one plugin at a time: the one that it registered last."""

    def __init__(self, registry_dir: Path) -> None:
        self._registry_dir = registry_dir
        self._seen: set[tuple[Path, int]] = set()
        self._endpoint = Path()

    def register(self, timeout_s: float) -> Registered:
        """Wait for a registration socket that is new, and register the plugin behind it.

        Raises:
            DemoFailed: none came in time, or the plugin did not answer.
        """
        socket = self._wait_socket(timeout_s)
        with grpc.insecure_channel(build_target(socket)) as channel:
            stub = registration_grpc.RegistrationStub(channel)
            try:
                info = stub.GetInfo(registration.InfoRequest(), timeout=CALL_S)
                stub.NotifyRegistrationStatus(registration.RegistrationStatus(plugin_registered=True), timeout=CALL_S)
            except grpc.RpcError as err:
                raise DemoFailed(f"registering the plugin at {socket}: {err.code().name}: {err.details()}") from err
        self._endpoint = Path(info.endpoint)
        return Registered(name=info.name, endpoint=info.endpoint, versions=tuple(info.supported_versions))

    def prepare(self, claims: Sequence[ClaimRef]) -> dict[str, Answer]:
        """``NodePrepareResources`` for these claims, in one call; by uid."""
        request = dra.NodePrepareResourcesRequest(claims=[_claim(each) for each in claims])
        with grpc.insecure_channel(build_target(self._endpoint)) as channel:
            try:
                response = dra_grpc.DRAPluginStub(channel).NodePrepareResources(request, timeout=CALL_S)
            except grpc.RpcError as err:
                raise DemoFailed(f"NodePrepareResources: {err.code().name}: {err.details()}") from err
        return {uid: _answer(entry) for uid, entry in response.claims.items()}

    def unprepare(self, claims: Sequence[ClaimRef]) -> dict[str, str]:
        """``NodeUnprepareResources``; an error text by uid, empty where all went well."""
        request = dra.NodeUnprepareResourcesRequest(claims=[_claim(each) for each in claims])
        with grpc.insecure_channel(build_target(self._endpoint)) as channel:
            try:
                response = dra_grpc.DRAPluginStub(channel).NodeUnprepareResources(request, timeout=CALL_S)
            except grpc.RpcError as err:
                raise DemoFailed(f"NodeUnprepareResources: {err.code().name}: {err.details()}") from err
        return {uid: entry.error for uid, entry in response.claims.items()}

    def _wait_socket(self, timeout_s: float) -> Path:
        give_up_at = time.monotonic() + timeout_s
        while time.monotonic() < give_up_at:
            for path in self._registry_dir.iterdir() if self._registry_dir.is_dir() else ():
                facts = path.lstat()
                if stat.S_ISSOCK(facts.st_mode) and (path, facts.st_ino) not in self._seen:
                    self._seen.add((path, facts.st_ino))
                    return path
            time.sleep(0.01)
        raise DemoFailed(f"no plugin came to {self._registry_dir} within {timeout_s:.0f} s; --debug shows its log")


def _claim(ref: ClaimRef) -> dra.Claim:
    return dra.Claim(namespace=ref.namespace, name=ref.name, uid=ref.uid)


def _answer(entry: dra.NodePrepareResourceResponse) -> Answer:
    ids: dict[str, tuple[str, ...]] = {}
    for device in entry.devices:
        for request in device.request_names:
            ids[request] = (*ids.get(request, ()), *device.cdi_device_ids)
    return Answer(cdi_ids=ids, error=entry.error)
