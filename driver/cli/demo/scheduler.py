"""A stand-in for kube-scheduler: first fit over published slices, for the few claims that the demo makes. Pure.

On a cluster kube-scheduler does this, or the gpu-dra controller. Here is just so much of it that a claim gets devices: the
order of slices and devices, a pattern for the product's name, one ``matchAttribute``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from driver.api.resource_v1 import Attribute, Device, ResourceSlice

DRIVER = "gpu.nvidia.com"
_MODEL = re.compile(r"\b[A-Z]{0,3}[0-9]{1,4}\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A claim with one request: so many whole GPUs of a product, all with one value of an attribute."""

    name: str
    count: int
    product: str
    """A word that the product's name holds: letters and digits."""
    match_attribute: str | None = None
    """Unqualified: ``nvlinkIsland``."""

    @property
    def selector(self) -> str:
        """The CEL expression that says the same."""
        return f'device.attributes["{DRIVER}"].productName.matches("{self.product}")'


def build_claim(ask: Ask) -> dict[str, Any]:
    """The ResourceClaim that a person would write for ``ask``."""
    exactly = {"deviceClassName": DRIVER, "count": ask.count, "selectors": [{"cel": {"expression": ask.selector}}]}
    devices: dict[str, Any] = {"requests": [{"name": "gpus", "exactly": exactly}]}
    if ask.match_attribute is not None:
        devices["constraints"] = [{"requests": ["gpus"], "matchAttribute": f"{DRIVER}/{ask.match_attribute}"}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": ask.name, "namespace": "default"},
        "spec": {"devices": devices},
    }


def build_allocation(devices: Sequence[str], *, driver: str, pool: str) -> dict[str, Any]:
    """``status.allocation`` with these devices."""
    results = [{"request": "gpus", "driver": driver, "pool": pool, "device": device} for device in devices]
    return {"devices": {"results": results}}


def choose_devices(slices: Sequence[ResourceSlice], ask: Ask, taken: frozenset[str]) -> tuple[str, ...] | None:
    """The first devices that fit, in the order of slices and devices; None when the free ones do not suffice."""
    fit = [device for device in _in_order(slices) if device.name not in taken and _matches(device, ask)]
    for first in fit:
        key = _key(first, ask)
        chosen = [device.name for device in fit if _key(device, ask) == key][: ask.count]
        if len(chosen) == ask.count:
            return tuple(chosen)
    return None


def _in_order(slices: Sequence[ResourceSlice]) -> Iterator[Device]:
    for each in sorted(slices, key=lambda each: each.metadata.name):
        yield from each.spec.devices


def _matches(device: Device, ask: Ask) -> bool:
    return not device.taints and ask.product in _text(device, "productName")


def _key(device: Device, ask: Ask) -> str:
    return "" if ask.match_attribute is None else _text(device, ask.match_attribute)


def _text(device: Device, name: str) -> str:
    return device.attributes.get(name, Attribute(string="")).string or ""


def choose_ask(slices: Sequence[ResourceSlice]) -> Ask:
    """The best that this node can be asked for and still have a GPU left: a quad, a pair, or one GPU."""
    devices = list(_in_order(slices))
    product = choose_word(_text(devices[0], "productName"))
    for count, attribute in ((4, "nvlinkQuad"), (2, "nvlinkPair")):
        ask = Ask(name="training", count=count, product=product, match_attribute=attribute)
        if count < len(devices) and choose_devices(slices, ask, frozenset()) is not None:
            return ask
    return Ask(name="training", count=1, product=product)


def choose_word(product: str) -> str:
    """The word that people call a product by: ``H100`` of ``NVIDIA H100 80GB HBM3``."""
    found = _MODEL.search(product) or re.search(r"\w+", product)
    return found.group() if found else ""
