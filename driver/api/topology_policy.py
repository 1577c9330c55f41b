"""``TopologyPolicy``: how the controller chooses devices for a claim, as an opaque config of a claim or a DeviceClass."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from driver.api import opaque
from driver.api.gpu_config import OWN_VERSION
from driver.errors import ConfigInvalid


class Scope(enum.Enum):
    """What the devices of a claim shall have in common."""

    NVLINK = "nvlink"
    """Every hop of the set's best ring is NVLink."""
    PCIE = "pcie"
    """One PCIe root complex."""
    NUMA = "numa"
    """One NUMA node."""
    NODE = "node"
    """One node, as always: nothing is preferred inside of it."""


class Mode(enum.Enum):
    """Whether a claim waits for its scope."""

    REQUIRED = "required"
    PREFERRED = "preferred"


class Packing(enum.Enum):
    """Which of two nodes that serve a claim equally well it goes to."""

    PACK = "pack"
    """The fullest."""
    SPREAD = "spread"
    """The emptiest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A claim's wishes; the default holds where nobody says anything."""

    scope: Scope = Scope.NVLINK
    mode: Mode = Mode.PREFERRED
    packing: Packing = Packing.PACK


_Choice = TypeVar("_Choice", Scope, Mode, Packing)


def decode_policy(parameters: bytes, what: str) -> Policy | None:
    """The policy in opaque parameters of this driver, None where they are of another kind; ``what`` says where they stand.

    Raises:
        ConfigInvalid: with every fault, each with its field path and what is allowed.
    """
    try:
        value = opaque.parse_object(parameters)
    except opaque.OpaqueFault as err:
        raise ConfigInvalid(what, [f"parameters: {err}"]) from err
    if (value.get("apiVersion"), value.get("kind")) != (OWN_VERSION, "TopologyPolicy"):
        return None
    faults = opaque.find_duplicates(value)
    faults += opaque.validate_keys(value, ("apiVersion", "kind", "scope", "mode", "packing"))
    policy = Policy(
        scope=_choice(value, "scope", Scope.NVLINK, faults),
        mode=_choice(value, "mode", Mode.PREFERRED, faults),
        packing=_choice(value, "packing", Packing.PACK, faults),
    )
    if faults:
        raise ConfigInvalid(what, faults)
    return policy


def _choice(value: Mapping[str, Any], field: str, default: _Choice, faults: list[str]) -> _Choice:
    given = value.get(field, default.value)
    for choice in type(default):
        if choice.value == given:
            return choice
    allowed = ", ".join(str(choice.value) for choice in type(default))
    faults.append(f"{field}: {opaque.describe(given)} is not one of {allowed}")
    return default
