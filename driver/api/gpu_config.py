"""The opaque configs that a claim or a DeviceClass may carry for this driver.

``resource.nvidia.com/v1beta1``: ``GpuConfig`` and ``MigDeviceConfig``, as NVIDIA's driver has them, so that its claims work
unchanged. ``gpu-dra.io/v1alpha1``: ``TopologyPolicy``, which is the controller's business: a node accepts it and looks no
further. A ``sharing`` block is refused, never ignored: a pod that asked for limits must not run without them (R44).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from driver.api import opaque
from driver.errors import ConfigInvalid

NVIDIA_VERSION = "resource.nvidia.com/v1beta1"
OWN_VERSION = "gpu-dra.io/v1alpha1"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuConfig:
    """What a claim asks of a whole GPU beyond having it. Without sharing there is nothing to set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigDeviceConfig:
    """What a claim asks of a MIG device beyond having it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyPolicy:
    """How the controller should choose devices. Its content is not read on a node."""


DeviceConfig: TypeAlias = GpuConfig | MigDeviceConfig | TopologyPolicy


def decode_config(parameters: bytes, what: str) -> DeviceConfig:
    """The config in opaque parameters; ``what`` says where they stand (``claim default/a: config 2``).

    Raises:
        ConfigInvalid: with every fault, each with its field path and what is allowed.
    """
    try:
        value = opaque.parse_object(parameters)
    except opaque.OpaqueFault as err:
        raise ConfigInvalid(what, [f"parameters: {err}"]) from err
    faults = opaque.find_duplicates(value)
    decode = _choose_kind(value, faults)
    config = decode(value, faults) if decode is not None else None
    if faults or config is None:
        raise ConfigInvalid(what, faults)
    return config


_Decode: TypeAlias = Callable[[Mapping[str, Any], list[str]], DeviceConfig]


def _choose_kind(value: Mapping[str, Any], faults: list[str]) -> _Decode | None:
    version, kind = value.get("apiVersion"), value.get("kind")
    decode = _KINDS.get((version, kind)) if isinstance(version, str) and isinstance(kind, str) else None
    if decode is not None:
        return decode
    versions = sorted({known_version for known_version, _ in _KINDS})
    kinds = sorted(known_kind for known_version, known_kind in _KINDS if version not in versions or known_version == version)
    for field, given, allowed in (("apiVersion", version, versions), ("kind", kind, kinds)):
        if field not in value:
            faults.append(f"{field}: missing, allowed are {', '.join(allowed)}")
        elif given not in allowed:
            faults.append(f"{field}: {opaque.describe(given)} is not one of {', '.join(allowed)}")
    return None


def _decode_gpu(value: Mapping[str, Any], faults: list[str]) -> GpuConfig:
    _validate_fields(value, faults)
    return GpuConfig()


def _decode_mig(value: Mapping[str, Any], faults: list[str]) -> MigDeviceConfig:
    _validate_fields(value, faults)
    return MigDeviceConfig()


def _decode_policy(_value: Mapping[str, Any], _faults: list[str]) -> TopologyPolicy:
    return TopologyPolicy()


def _validate_fields(value: Mapping[str, Any], faults: list[str]) -> None:
    faults += opaque.validate_keys(value, ("apiVersion", "kind", "sharing"))
    if value.get("sharing") is not None:
        faults.append("sharing: this version of the driver cannot share a device between claims; leave the block out")


_KINDS: Mapping[tuple[str, str], _Decode] = {
    (NVIDIA_VERSION, "GpuConfig"): _decode_gpu,
    (NVIDIA_VERSION, "MigDeviceConfig"): _decode_mig,
    (OWN_VERSION, "TopologyPolicy"): _decode_policy,
}
