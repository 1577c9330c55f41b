"""The fake kubelet's wire side and its checks: messages of each version, answers, plugins, sockets."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc

from driver.claims.model import ClaimRef, PreparedDevice
from driver.names import CDIDeviceID, ClaimUID, DeviceName, PoolName
from driver.pb.dra.v1 import api_pb2 as dra_v1
from driver.pb.dra.v1 import api_pb2_grpc as dra_v1_grpc
from driver.pb.dra.v1beta1 import api_pb2 as dra_v1beta1
from driver.pb.dra.v1beta1 import api_pb2_grpc as dra_v1beta1_grpc
from driver.pb.dra_health.v1 import api_pb2 as health_v1
from driver.pb.dra_health.v1 import api_pb2_grpc as health_v1_grpc
from driver.pb.dra_health.v1alpha1 import api_pb2 as health_v1alpha1
from driver.pb.dra_health.v1alpha1 import api_pb2_grpc as health_v1alpha1_grpc
from driver.pb.pluginregistration.v1 import api_pb2 as registration


class CallFailed(Exception):
    """What the kubelet would write into the pod's event."""


def dra_stub(channel: grpc.Channel, service: str | None) -> tuple[Any, Any]:
    """The messages and the stub of the service by its label."""
    if service == "v1.DRAPlugin":
        return dra_v1, dra_v1_grpc.DRAPluginStub(channel)
    return dra_v1beta1, dra_v1beta1_grpc.DRAPluginStub(channel)


def watch_health(channel: grpc.Channel, service: str | None) -> Any:
    """The health stream of the service by its label."""
    if service == "v1.DRAResourceHealth":
        v1_stub = health_v1_grpc.DRAResourceHealthStub(channel)
        return v1_stub.NodeWatchResources(health_v1.NodeWatchResourcesRequest(), wait_for_ready=True)
    v1alpha1_stub = health_v1alpha1_grpc.DRAResourceHealthStub(channel)
    return v1alpha1_stub.NodeWatchResources(health_v1alpha1.NodeWatchResourcesRequest(), wait_for_ready=True)


def claim(version: Any, ref: ClaimRef) -> Any:
    """A claim of a call."""
    return version.Claim(namespace=ref.namespace, name=ref.name, uid=ref.uid)


def device(wire: Any) -> PreparedDevice:
    """A device of an answer, in no version's words."""
    return PreparedDevice(
        requests=tuple(wire.request_names),
        pool=PoolName(wire.pool_name),
        device=DeviceName(wire.device_name),
        cdi_device_ids=tuple(CDIDeviceID(each) for each in wire.cdi_device_ids),
        share_id=wire.share_id if hasattr(wire, "share_id") and wire.HasField("share_id") else None,
    )


def check(call: str, asked: Sequence[ClaimRef], answered: Mapping[str, Any]) -> None:
    """The kubelet's checks of an answer: all that it looks at."""
    by_uid = {each.uid: each for each in asked}
    for uid, entry in answered.items():
        ref = by_uid.get(ClaimUID(uid))
        if ref is None:
            raise CallFailed(f"{call} returned result for unknown claim UID {uid}")
        if entry.error:
            raise CallFailed(f"{call} failed for ResourceClaim {ref.name}: {entry.error}")
    skipped = len(asked) - len(answered)
    if skipped:
        raise CallFailed(f"{call} skipped {skipped} ResourceClaims")


def find_fault(info: registration.PluginInfo, known_services: Sequence[str], taken_endpoints: Sequence[str]) -> str | None:
    """Why the kubelet refuses a plugin, or None."""
    if info.type != "DRAPlugin":
        return f"RegisterPlugin error -- no handler registered for plugin type: {info.type}"
    if not [each for each in info.supported_versions if each in known_services]:
        return (
            f"RegisterPlugin error -- plugin validation failed with err: none of services supported by the plugin "
            f"({list(info.supported_versions)}) are supported by the kubelet ({list(known_services)})"
        )
    if info.endpoint in taken_endpoints:
        return (
            f"RegisterPlugin error -- plugin registration failed with err: endpoint {info.endpoint} "
            f"already registered for DRA driver plugin {info.name}"
        )
    return None


def find_sockets(folder: Path) -> dict[Path, tuple[int, int]]:
    """What the kubelet's watcher would take for a plugin, with what tells a file from its successor."""
    found = {}
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                facts = entry.stat(follow_symlinks=False)
                if stat.S_ISSOCK(facts.st_mode) and not entry.name.startswith("."):
                    found[Path(entry.path)] = (facts.st_ino, facts.st_ctime_ns)
    return found
