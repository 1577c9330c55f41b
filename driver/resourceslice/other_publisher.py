"""Whether another driver of our name serves this node (R30): it would delete our slices as obsolete, and we its.

NVIDIA's own driver has the same name by design, so that its users' claims work here unchanged; the two cannot share a node.
Ours are told from others by an attribute that every device of ours has, ``allocator``.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from driver.api.resource_v1 import Device, ResourceSlice

_MARK = "allocator"
_CHECKPOINT_MAX_BYTES = 32 << 20
_HOW_TO_MIGRATE = (
    "Two drivers of one name would give the same GPUs out twice. To migrate: drain the node, uninstall the other driver there, "
    "then start this one"
)


class _PreparedClaims(msgspec.Struct, frozen=True, rename="camel"):
    prepared_claims: dict[str, msgspec.Raw] | None = None
    node_boot_id: str = msgspec.field(name="nodeBootID", default="")


class _Checkpoint(msgspec.Struct, frozen=True):
    v1: _PreparedClaims | None = None
    v2: _PreparedClaims | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaTraces:
    """What NVIDIA's driver left in the plugin's directory, or holds there now."""

    live_socket: Path | None = None
    checkpoint: Path | None = None
    prepared_claims: tuple[str, ...] = ()


def read_nvidia_traces(plugin_dir: Path, *, boot_id: str) -> NvidiaTraces:
    """Look for a socket that answers, and for a checkpoint that still lists claims of this boot."""
    sock, checkpoint = plugin_dir / "dra.sock", plugin_dir / "checkpoint.json"
    return NvidiaTraces(
        live_socket=sock if _answers(sock) else None,
        checkpoint=checkpoint,
        prepared_claims=_read_prepared_claims(checkpoint, boot_id=boot_id),
    )


def detect_other_publisher(existing: Sequence[ResourceSlice], traces: NvidiaTraces = NvidiaTraces()) -> str | None:
    """Why this driver must not serve the node, with the way out; None where nothing speaks against it.

    ``existing`` are the slices of our driver's name on this node.
    """
    foreign = [each for each in existing if is_foreign(each)]
    if traces.live_socket is not None:
        return f"{traces.live_socket} is served by NVIDIA's DRA driver. {_HOW_TO_MIGRATE}."
    if traces.prepared_claims:
        some = ", ".join(traces.prepared_claims[:3])
        return (
            f"{traces.checkpoint} of NVIDIA's DRA driver lists {len(traces.prepared_claims)} prepared claims ({some}), "
            f"whose pods may hold GPUs. {_HOW_TO_MIGRATE}; if the node was drained already, delete the file."
        )
    if foreign:
        names = ", ".join(each.metadata.name for each in foreign[:3])
        devices = ", ".join(device.name for device in foreign[0].spec.devices[:3])
        return (
            f"ResourceSlices {names} of driver {foreign[0].spec.driver} on this node are not ours (devices {devices}). "
            f"{_HOW_TO_MIGRATE}; its slices go by themselves 30 s after its sockets."
        )
    return None


def is_foreign(existing: ResourceSlice) -> bool:
    """Whether a slice has devices, and none of them is of our making. One that was edited by hand stays ours."""
    devices = existing.spec.devices
    return bool(devices) and not any(_is_marked(device) for device in devices)


def _is_marked(device: Device) -> bool:
    return any(key.rpartition("/")[2] == _MARK for key in device.attributes)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(1.0)
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def _read_prepared_claims(path: Path, *, boot_id: str) -> tuple[str, ...]:
    try:
        with path.open("rb") as file:
            data = file.read(_CHECKPOINT_MAX_BYTES)
        checkpoint = msgspec.json.decode(data, type=_Checkpoint)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()  # no file, or none that lists claims
    newest = checkpoint.v2 or checkpoint.v1
    if newest is None or (newest.node_boot_id and newest.node_boot_id != boot_id):
        return ()
    return tuple(sorted(newest.prepared_claims or {}))
