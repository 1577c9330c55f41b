"""GPUs that several claims divide by memory (consumable capacity, KEP-5075). Pure.

A claim says how much memory it wants; one that says nothing has the whole GPU, as before. The scheduler adds up, the node looks
after it (``claims.shares``), and where the claim asks for MPS, MPS enforces it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from driver.api.quantity import format_bytes, parse_quantity
from driver.api.resource_v1 import Capacity, Device
from driver.topology.model import Gpu

_MIB = 1 << 20
STEP = "1Mi"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSetting:
    """Which GPUs of the node may be divided."""

    is_on: bool = False
    only: frozenset[str] = frozenset()
    """Device names, PCI addresses or UUIDs; empty is all."""

    is_refused: bool = False
    """The API server does not keep such devices, so none are divided."""

    def covers(self, gpu: Gpu) -> bool:
        """Whether this GPU may be."""
        return self.is_on and (not self.only or not self.only.isdisjoint(_names_of(gpu)))

    def find_trouble(self, gpus: Collection[Gpu]) -> tuple[str, ...]:
        """What of the setting cannot be done on a node with these GPUs."""
        if self.is_refused:
            return ("consumable shares are set, and this API server does not keep them: Kubernetes 1.36 or later does",)
        known = {name for gpu in gpus for name in _names_of(gpu)}
        strangers = sorted(self.only - known) if self.is_on else ()
        return tuple(f"consumable shares are set for {name}, and this node has no such GPU" for name in strangers)


NO_SHARES = ShareSetting()


def parse_setting(text: str) -> ShareSetting:
    """``disabled``, ``memory``, or ``memory:`` and GPUs.

    Raises:
        ValueError
    """
    word, _, gpus = text.partition(":")
    if text == "disabled":
        return ShareSetting()
    names = frozenset(name.strip() for name in gpus.split(",")) if gpus else frozenset()
    if word != "memory" or "" in names or text.endswith(":"):
        raise ValueError("say disabled, memory, or memory:GPU,GPU with device names, PCI addresses or UUIDs")
    return ShareSetting(is_on=True, only=names)


def share_device(device: Device) -> Device | None:
    """The device as one that several claims may have parts of; None where its memory is not known.

    Memory is the only capacity left: each share would have all of every other one, and a second one no place beside it.
    """
    memory = device.capacity.get("memory")
    total = _whole_mib(memory) if memory is not None else 0
    if memory is None or total == 0:
        return None
    most = format_bytes(total * _MIB)
    policy = {"default": most, "validRange": {"min": STEP, "max": most, "step": STEP}}
    return Device(
        name=device.name,
        attributes=device.attributes,
        capacity={"memory": Capacity(value=memory.value, request_policy=policy)},
        consumes_counters=device.consumes_counters,
        taints=device.taints,
        allow_multiple_allocations=True,
    )


def _whole_mib(capacity: Capacity) -> int:
    return int(parse_quantity(capacity.value) // _MIB)


def _names_of(gpu: Gpu) -> tuple[str, ...]:
    return gpu.name, str(gpu.reading.pci), gpu.reading.uuid
