"""The opaque configs that a claim or a DeviceClass may carry for this driver.

``resource.nvidia.com/v1beta1``: ``GpuConfig`` and ``MigDeviceConfig``, as NVIDIA's driver has them, so that its claims work
unchanged. ``gpu-dra.io/v1alpha1``: ``TopologyPolicy``, which is the controller's business: a node accepts it and looks no
further.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from driver.api import config_schema, opaque
from driver.api.config_schema import Choice, Fields
from driver.api.sharing import GPU_SHARING, MIG_SHARING, Sharing, build_sharing
from driver.errors import ConfigInvalid

NVIDIA_VERSION = "resource.nvidia.com/v1beta1"
OWN_VERSION = "gpu-dra.io/v1alpha1"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuConfig:
    """What a claim asks of a whole GPU beyond having it. Without sharing there is nothing to set."""

    sharing: Sharing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigDeviceConfig:
    """What a claim asks of a MIG device beyond having it."""

    sharing: Sharing | None = None


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
    if decode is None:
        faults += config_schema.find_faults(build_head(version if isinstance(version, str) else ""), _only_head(value))
    return decode


def build_head(version: str) -> Fields:
    """What ``apiVersion`` and ``kind`` may be, where the first is ``version``."""
    versions = tuple(sorted({known for known, _ in _KINDS}))
    kinds = tuple(sorted(kind for known, kind in _KINDS if version not in versions or known == version))
    fields = {"apiVersion": Choice(options=versions), "kind": Choice(options=kinds)}
    return Fields(fields=fields, required=tuple(fields))


def _only_head(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value[name] for name in ("apiVersion", "kind") if name in value}


def _decode_gpu(value: Mapping[str, Any], faults: list[str]) -> GpuConfig:
    return GpuConfig(sharing=_decode_sharing(value, GPU_CONFIG, faults))


def _decode_mig(value: Mapping[str, Any], faults: list[str]) -> MigDeviceConfig:
    return MigDeviceConfig(sharing=_decode_sharing(value, MIG_CONFIG, faults))


def _decode_policy(_value: Mapping[str, Any], _faults: list[str]) -> TopologyPolicy:
    return TopologyPolicy()


def _decode_sharing(value: Mapping[str, Any], schema: Fields, faults: list[str]) -> Sharing | None:
    faults += config_schema.find_faults(schema, value)
    block = value.get("sharing")
    return build_sharing(block) if block is not None and not faults else None


def _build_schema(kind: str, sharing: Fields) -> Fields:
    head = {"apiVersion": Choice(options=(NVIDIA_VERSION,)), "kind": Choice(options=(kind,))}
    return Fields(fields={**head, "sharing": sharing})


GPU_CONFIG = _build_schema("GpuConfig", GPU_SHARING)
MIG_CONFIG = _build_schema("MigDeviceConfig", MIG_SHARING)


def list_schemas() -> Mapping[tuple[str, str], Fields | None]:
    """By apiVersion and kind what a config may hold; None where this is not the node's business."""
    schemas = {"GpuConfig": GPU_CONFIG, "MigDeviceConfig": MIG_CONFIG}
    return {(version, kind): schemas.get(kind) for version, kind in _KINDS}


_KINDS: Mapping[tuple[str, str], _Decode] = {
    (NVIDIA_VERSION, "GpuConfig"): _decode_gpu,
    (NVIDIA_VERSION, "MigDeviceConfig"): _decode_mig,
    (OWN_VERSION, "TopologyPolicy"): _decode_policy,
}
