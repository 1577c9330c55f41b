"""Base of all that ``-o json`` prints, and what both programs say of GPUs that are linked."""

from __future__ import annotations

import msgspec

from driver.cli.printable import escape_json


class View(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Every field is always there, ``null`` where it is not known. The names are a stable interface: fields are only added."""


class LinkedGpuView(View, frozen=True, kw_only=True):
    """A GPU among others of its node. ``island``, ``quad``, ``pair`` and ``component`` are the lowest position in the set."""

    gpu: int
    """The position, which counts from 0 in order of PCI address."""
    device: str
    product_name: str
    memory_bytes: int | None
    numa_node: int | None
    pcie_root: str | None
    nvlinks: int
    island: int
    quad: int
    pair: int
    component: int


class LinkView(View, frozen=True, kw_only=True):
    """What lies between two GPUs: active NVLinks, and the PCIe level under them."""

    gpus: tuple[int, int]
    nvlinks: int
    pcie: str
    asymmetric: bool


def link_text(link: LinkView) -> str:
    """``NV18``, else the PCIe level, as ``nvidia-smi topo -m`` has it."""
    return f"NV{link.nvlinks}" if link.nvlinks else link.pcie


def encode_json(value: object) -> str:
    """A view for programs, and for people who look at it in a terminal."""
    return escape_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
