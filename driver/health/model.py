"""What is wrong with the node's GPUs, as frozen values: taints, the kubelet's states, events and metrics are made of them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

import msgspec

from driver.names import DeviceName


class Scope(enum.StrEnum):
    """What has to be put right again."""

    APPLICATION = "application"
    """The program alone: the GPU is fit for the next one. Counted, never held against the GPU."""
    GPU = "gpu"
    """The GPU: a reset, or another card."""
    NODE = "node"
    """The machine: a reboot, or more. It still takes out none but the GPU that said so."""


class Kind(enum.StrEnum):
    """The key of the taint: ``gpu.nvidia.com/<kind>``. In order of weight: where a device has too many, the last go."""

    GPU_LOST = "gpu-lost"
    XID = "xid"
    ECC = "ecc"
    RECOVERY = "recovery"
    """NVML asks for a reset, a reboot or the like, whatever it was that brought it about."""
    NVLINK = "nvlink"
    REMAPPED_ROWS = "remapped-rows"
    THERMAL = "thermal"
    POWER_BRAKE = "power-brake"
    FABRIC = "fabric"
    """The NVLink fabric of the GPU is not up."""
    UNMONITORED = "unmonitored"
    """The driver tells no events of this GPU: what else is read of it is all that is known."""


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """The GPU instance that a trouble concerns, as it was numbered then, and where it lay."""

    gpu_instance_id: int
    compute_instance_id: int | None = None
    """None: all of the GPU instance."""
    start: int | None = None
    """Memory slices; None where NVML could not be asked any more."""
    size: int | None = None


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Something is wrong with a device, until it is not."""

    device: DeviceName
    """The whole GPU's."""
    instance: Instance | None = None
    """None: it concerns the whole GPU, and all that it is divided into."""
    kind: Kind
    value: str = ""
    """The taint's value, legal as a label's: the XID's number, or what is asked for."""
    scope: Scope = Scope.GPU
    is_warning: bool = False
    """The GPU can be given out all the same."""
    since: datetime
    """UTC, whole seconds; stays while the trouble does, over restarts, and becomes the taint's ``timeAdded``."""
    message: str
    """What happened, in plain words."""
    advice: str
    """What to do about it."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known now of the health of the node's GPUs."""

    troubles: tuple[Trouble, ...] = ()
    """Heaviest first on each device; an application's own XID is counted, and not among them."""
    counts: Mapping[tuple[DeviceName, int], int] = MappingProxyType({})
    """How often each XID was seen, by GPU and number, since the node was booted. Bounded."""


HEALTHY = Health()
"""Nothing is wrong, as far as it is known."""
