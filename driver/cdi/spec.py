"""A CDI specification as values, and its JSON. Pure.

Source: the Container Device Interface specification, 1.0 (files are read by containerd and CRI-O). Only what is used here.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from driver.cdi import names


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """Base of a specification's parts: absent is off the wire."""


class DeviceNodeEdit(_Part, frozen=True, kw_only=True):
    """A device node that the container gets."""

    path: str
    host_path: str | None = None
    """Where the node's facts are taken from, where that is not ``path``."""
    type: str = ""
    major: int | None = None
    minor: int | None = None
    permissions: str = ""


class Mount(_Part, frozen=True, kw_only=True):
    """A bind mount."""

    host_path: str
    container_path: str
    options: tuple[str, ...] = ()


class Hook(_Part, frozen=True, kw_only=True):
    """A program of the host that runs when the container is made."""

    hook_name: str
    path: str
    args: tuple[str, ...] = ()


class ContainerEdits(_Part, frozen=True, kw_only=True):
    """What is done to a container."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNodeEdit, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()

    def is_empty(self) -> bool:
        """True when nothing would be done: never right for a device (B48)."""
        return not (self.env or self.device_nodes or self.mounts or self.hooks)


class CdiDevice(_Part, frozen=True, kw_only=True):
    """One device of the file."""

    name: str
    container_edits: ContainerEdits


class CdiSpec(_Part, frozen=True, kw_only=True):
    """One file: its kind, its devices, and what is done to a container that gets any of them."""

    kind: str
    annotations: dict[str, str] = {}
    devices: tuple[CdiDevice, ...]
    container_edits: ContainerEdits = ContainerEdits()


class _Versioned(CdiSpec, frozen=True, kw_only=True):
    cdi_version: str


class SpecInvalid(ValueError):
    """The values make no file that a runtime would take, or the bytes hold no specification."""


def encode_spec(spec: CdiSpec) -> bytes:
    """The file, with the lowest version that carries what it uses: an older runtime refuses a newer one.

    Raises:
        SpecInvalid: an illegal name, two devices of one name, a device without edits (B48), no device.
    """
    faults = _validate(spec)
    if faults:
        raise SpecInvalid("; ".join(faults))
    versioned = _Versioned(
        cdi_version=choose_version(spec),
        kind=spec.kind,
        annotations=spec.annotations,
        devices=spec.devices,
        container_edits=spec.container_edits,
    )
    return msgspec.json.encode(versioned, order="deterministic")


def decode_annotations(data: bytes) -> Mapping[str, str]:
    """A file's annotations; of the rest nothing is believed.

    Raises:
        SpecInvalid: no JSON object, or annotations that are not text.
    """
    try:
        return msgspec.json.decode(data, type=_Annotated).annotations
    except (msgspec.MsgspecError, RecursionError, ValueError) as err:
        raise SpecInvalid(str(err)) from err


def is_same_grant(data: bytes, spec: CdiSpec) -> bool:
    """Whether a file's bytes do to a container just what ``spec`` does; its annotations are not compared."""
    try:
        found = msgspec.json.decode(data, type=_Versioned)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return False
    return (found.kind, found.devices, found.container_edits) == (spec.kind, spec.devices, spec.container_edits)


def choose_version(spec: CdiSpec) -> str:
    """The lowest ``cdiVersion`` for what ``spec`` uses."""
    _, _, klass = spec.kind.partition("/")
    nodes = [node for edits in _all_edits(spec) for node in edits.device_nodes]
    if spec.annotations or "." in klass:
        return "0.6.0"
    if any(node.host_path is not None for node in nodes) or any(device.name[:1].isdigit() for device in spec.devices):
        return "0.5.0"
    return "0.3.0"


class _Annotated(msgspec.Struct, frozen=True):
    annotations: dict[str, str] = {}


def _all_edits(spec: CdiSpec) -> tuple[ContainerEdits, ...]:
    return (spec.container_edits, *(device.container_edits for device in spec.devices))


def _validate(spec: CdiSpec) -> list[str]:
    faults = [] if names.is_legal_kind(spec.kind) else [f"{spec.kind[:80]!r} is no legal kind"]
    seen: set[str] = set()
    for device in spec.devices:
        if not names.is_legal_device(device.name):
            faults.append(f"{device.name[:80]!r} is no legal device name")
        if device.name in seen:
            faults.append(f"device {device.name} stands there twice")
        if device.container_edits.is_empty():
            faults.append(f"device {device.name[:80]} has no edits")
        seen.add(device.name)
    if not spec.devices:
        faults.append("there is no device")
    return faults
