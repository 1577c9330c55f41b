"""Every attribute and capacity of a whole GPU, in one table: name, type, meaning, and how the value is made.

The order is the order in which the budget is spent: what NVIDIA's driver publishes first, under the same names and in the same
form, then ours. ``docs/attributes.md`` is generated from this table.

A fact that the machine does not tell is absent, never zero or empty. But ours that selectors are written for are on every whole
GPU: one missing attribute aborts the scheduling of every pod whose selector reads it.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from driver.api import fence
from driver.api.quantity import format_bytes
from driver.api.resource_v1 import DEVICE_ATTRIBUTE_MAX_VALUE_BYTES, Attribute, Capacity
from driver.api.versions import parse_version
from driver.names import PciAddress
from driver.nvml.library import GpuInstanceProfileInfo
from driver.resourceslice.budget import Fact
from driver.topology.fabric import fabric_domain
from driver.topology.model import Gpu, Topology

_STANDARD = "resource.kubernetes.io"
_NODE_TAG = re.compile(r"[0-9a-f]{12}")
_LONGEST_PCI_DOMAIN = 0xFFFF


class Allocator(enum.Enum):
    """Who may allocate a device; all but ``scheduler`` are fenced from kube-scheduler with a taint (design section 6)."""

    SCHEDULER = fence.SCHEDULER
    DRAINING = fence.DRAINING
    CONTROLLER = fence.CONTROLLER


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """All that the values of one GPU are made of."""

    topology: Topology
    gpu: Gpu
    node_uid: str
    allocator: Allocator
    is_divided: bool = False
    """Claims may have parts of the GPU: it then says what there is to divide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One attribute or capacity. ``read`` gives None where this GPU has no such fact."""

    name: str
    type: str
    """``string``, ``int`` or ``version`` for an attribute, ``quantity`` for a capacity."""
    is_nvidias: bool
    """NVIDIA's driver publishes it under this name too, or Kubernetes has made it a standard."""
    meaning: str
    example: str
    read: Callable[[GpuFacts], Attribute | Capacity | None]


def build_facts(facts: GpuFacts) -> tuple[Fact, ...]:
    """Every fact that this GPU has, in the table's order."""
    values = ((row.name, row.read(facts)) for row in WHOLE_GPU_ROWS)
    return tuple((name, value) for name, value in values if value is not None)


def legal_text(text: str) -> str:
    """At most 64 bytes of UTF-8, cut at a character (B21); what is no UTF-8 at all becomes a question mark."""
    return text.encode(errors="replace")[:DEVICE_ATTRIBUTE_MAX_VALUE_BYTES].decode(errors="ignore")


def node_tag(node_uid: str) -> str:
    """12 hex digits that tell this node's sets from those of any other: the uid's own, or a digest where it has none."""
    digits = node_uid.replace("-", "")[:12].lower()
    return digits if _NODE_TAG.fullmatch(digits) else hashlib.sha256(node_uid.encode(errors="replace")).hexdigest()[:12]


def _text(text: str | None) -> Attribute | None:
    return Attribute(string=legal_text(text)) if text else None


def _number(number: int | None) -> Attribute | None:
    return Attribute(int_=number) if number is not None and 0 <= number < 1 << 63 else None


def _version(text: str | None) -> Attribute | None:
    version = parse_version(text) if text is not None else None
    return Attribute(version=version) if version is not None else None


def _dotted(pair: tuple[int, int] | None) -> str | None:
    return f"{pair[0]}.{pair[1]}" if pair is not None else None


def _bus_id(pci: PciAddress) -> Attribute | None:
    """The standard form has four digits of domain; a slot behind a longer one (VMD) has no such value, only its name."""
    return _text(str(pci)) if pci.domain <= _LONGEST_PCI_DOMAIN else None


def _memory(amount: int | None) -> Capacity | None:
    return Capacity(value=format_bytes(amount)) if amount is not None and 0 <= amount < 1 << 63 else None


def _largest(read: Callable[[GpuInstanceProfileInfo], int]) -> Callable[[GpuFacts], Capacity | None]:
    """The most that one MIG device of the GPU can have, as NVIDIA's driver has it where MIG devices are made by claims."""

    def largest(facts: GpuFacts) -> Capacity | None:
        mig = facts.gpu.reading.mig
        if not facts.is_divided or mig is None or not mig.profiles:
            return None
        return Capacity(value=str(max(read(profile.info) for profile in mig.profiles)))

    return largest


def _set_of_node(facts: GpuFacts, kind: str, lowest: int) -> Attribute | None:
    return _text(f"{node_tag(facts.node_uid)}-{kind}-{facts.topology.gpus[lowest].reading.pci}")


def _domain(facts: GpuFacts) -> Attribute | None:
    fabric = fabric_domain(facts.gpu.reading.fabric)
    return _text(fabric) if fabric is not None else _set_of_node(facts, "domain", facts.gpu.component)


def _nvidias(name: str, type_: str, meaning: str, example: str, read: Callable[[GpuFacts], Attribute | Capacity | None]) -> Row:
    return Row(name=name, type=type_, is_nvidias=True, meaning=meaning, example=example, read=read)


def _ours(name: str, type_: str, meaning: str, example: str, read: Callable[[GpuFacts], Attribute | None]) -> Row:
    return Row(name=name, type=type_, is_nvidias=False, meaning=meaning, example=example, read=read)


_ENGINES: tuple[tuple[str, str, str, Callable[[GpuInstanceProfileInfo], int]], ...] = (
    ("multiprocessors", "multiprocessors", "132", lambda info: info.multiprocessor_count),
    ("copyEngines", "copy engines", "8", lambda info: info.copy_engine_count),
    ("decoders", "video decoders", "7", lambda info: info.decoder_count),
    ("encoders", "video encoders", "0", lambda info: info.encoder_count),
    ("jpegEngines", "JPEG engines", "7", lambda info: info.jpeg_count),
    ("ofaEngines", "optical-flow engines", "1", lambda info: info.ofa_count),
)

WHOLE_GPU_ROWS: tuple[Row, ...] = (
    _nvidias("type", "string", "What the device is: `gpu` for a whole GPU.", "gpu", lambda _: _text("gpu")),
    _nvidias("uuid", "string", "NVML's UUID of the GPU.", "GPU-…", lambda f: _text(f.gpu.reading.uuid)),
    _nvidias(
        "productName",
        "string",
        "NVML's product name, cut at 64 bytes.",
        "NVIDIA H100 80GB HBM3",
        lambda f: _text(f.gpu.reading.product_name),
    ),
    _nvidias("brand", "string", "NVML's brand.", "Nvidia", lambda f: _text(f.gpu.reading.brand)),
    _nvidias("architecture", "string", "The GPU's architecture.", "Hopper", lambda f: _text(f.gpu.reading.architecture)),
    _nvidias(
        "cudaComputeCapability",
        "version",
        "The CUDA compute capability.",
        "9.0.0",
        lambda f: _version(_dotted(f.gpu.reading.cuda_compute_capability)),
    ),
    _nvidias(
        "driverVersion",
        "version",
        "The driver's version as a semantic version: leading zeros go. `driverVersionText` has it verbatim.",
        "580.159.4",
        lambda f: _version(f.topology.driver_version),
    ),
    _nvidias(
        "cudaDriverVersion",
        "version",
        "The newest CUDA that the driver runs.",
        "13.0.0",
        lambda f: _version(_dotted(f.topology.cuda_driver_version)),
    ),
    _nvidias(
        "addressingMode",
        "string",
        "How the GPU shares addresses with the host: `HMM`, `ATS` or `None`; absent where NVML does not tell.",
        "HMM",
        lambda f: _text(f.gpu.reading.addressing_mode),
    ),
    _nvidias(
        "gpuModuleID",
        "int",
        "The place on the board; absent where it is unknown or 0.",
        "3",
        lambda f: _number(f.gpu.reading.module_id or None),
    ),
    _nvidias(
        f"{_STANDARD}/pciBusID",
        "string",
        "The PCI address; absent where its domain has more than four digits.",
        "0000:4e:00.0",
        lambda f: _bus_id(f.gpu.reading.pci),
    ),
    _nvidias(
        f"{_STANDARD}/pcieRoot",
        "string",
        "The PCIe root complex, which other drivers' devices have too; absent where a virtual machine hides it.",
        "pci0000:4a",
        lambda f: _text(f.gpu.reading.pcie_root),
    ),
    _nvidias(
        f"{_STANDARD}/numaNode",
        "int",
        "The NUMA node next to the GPU's slot; absent where the kernel knows none.",
        "0",
        lambda f: _number(f.gpu.reading.numa_node),
    ),
    _nvidias(
        "memory",
        "quantity",
        "The GPU's memory as NVML totals it; absent where memory is shared with the host and NVML gives no total.",
        "81559Mi",
        lambda f: _memory(f.gpu.reading.memory_bytes),
    ),
    *(
        _nvidias(
            name,
            "quantity",
            f"The most {what} that one MIG device of the GPU can have; absent where claims make none.",
            example,
            _largest(read),
        )
        for name, what, example, read in _ENGINES
    ),
    _ours(
        "nvlinkIsland",
        "string",
        "The GPUs of this node in which every pair is linked by NVLink; where the links make no such set (DGX-1), its best "
        "quads. A GPU without NVLink is an island of its own.",
        "1f0c22d4a9b8-island-0000:19:00.0",
        lambda f: _set_of_node(f, "island", f.gpu.island),
    ),
    _ours("nvlinkIslandSize", "int", "How many GPUs the island has; 1 alone.", "8", lambda f: _number(f.gpu.island_size)),
    _ours(
        "nvlinkQuad",
        "string",
        "The best four on a ring of NVLinks. A GPU in no such four has a value of its own.",
        "1f0c22d4a9b8-quad-0000:19:00.0",
        lambda f: _set_of_node(f, "quad", f.gpu.quad),
    ),
    _ours(
        "nvlinkPair",
        "string",
        "The best two with an NVLink between them, within the quad. A GPU in no such pair has a value of its own.",
        "1f0c22d4a9b8-pair-0000:19:00.0",
        lambda f: _set_of_node(f, "pair", f.gpu.pair),
    ),
    _ours("nvlinkLinks", "int", "The GPU's active NVLinks to GPUs and switches.", "18", lambda f: _number(f.gpu.nvlink_count)),
    _ours(
        "nvlinkDomain",
        "string",
        "What NVLink reaches in any number of hops: `<cluster uuid>.<clique id>` of a fabric over several nodes, else the "
        "connected GPUs of this node.",
        "9c6f5af3-53bf-49b5-a436-b66766c413c3.4026",
        _domain,
    ),
    _ours(
        "driverVersionText",
        "string",
        "The driver's version exactly as NVML says it.",
        "580.159.04",
        lambda f: _text(f.topology.driver_version),
    ),
    _ours(
        "allocator",
        "string",
        "Who may allocate the device: `scheduler`, `controller`, or nobody while the node changes sides: `draining`. Selectors "
        "cannot see taints; they can see this.",
        "scheduler",
        lambda f: _text(f.allocator.value),
    ),
)
