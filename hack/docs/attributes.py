"""``docs/attributes.md``, from the table that the driver publishes by."""

from __future__ import annotations

from driver.resourceslice.attributes import WHOLE_GPU_ROWS, Row
from driver.resourceslice.partitions import PARTITION_ROWS, PartitionRow

_HEAD = """\
# Attributes and capacities

<!-- Made by `python -m hack.docs` from driver/resourceslice/attributes.py and partitions.py. Change these, not this page. -->

What a selector in a ResourceClaim or DeviceClass can ask of a whole GPU. A name without a domain belongs to the driver, so
CEL reads it as `device.attributes["gpu.nvidia.com"].productName` or `device.capacity["gpu.nvidia.com"].memory`; one with a
domain as `device.attributes["resource.kubernetes.io"].numaNode`. In `constraints` write the whole name:
`matchAttribute: gpu.nvidia.com/nvlinkIsland`.

A fact that the machine does not tell is absent, never zero or empty. A selector that reads an absent attribute is an error for
the whole pod, so ask first where the table says "absent": `"numaNode" in device.attributes["resource.kubernetes.io"]`.

"""
_NVIDIAS = "## As NVIDIA's driver has them\n\nSame names, types and forms, so that a claim written for it works unchanged.\n\n"
_OURS = "\n## Beyond them\n\nOn every whole GPU, always.\n\n"
_TABLE = """\
| name | type | meaning | example |
| --- | --- | --- | --- |
"""
_SETS = """
## Sets of GPUs

`nvlinkIsland`, `nvlinkQuad` and `nvlinkPair` are `<12 hex digits of the node's uid>-<kind>-<lowest PCI address of the set>`,
so that no two nodes share a value. Pairs lie inside quads, or in what the quads of an island leave over; quads lie inside
islands. Only NVLink makes a set: two GPUs on one PCIe switch are no pair. `count: 4` with
`matchAttribute: gpu.nvidia.com/nvlinkQuad` gives four GPUs on a ring of NVLinks, `count: 2` with `nvlinkPair` two with a direct
or switched link.

A GPU in MIG mode is not published as a whole GPU, unless claims make and remove its MIG devices ([mig.md](mig.md)): shared
counters then see to it that it and its parts are never given out at the same time.
"""
_MIG = """
## MIG devices

Of the class `mig.nvidia.com`. Same names, types and forms as NVIDIA's, and the last two of ours.

"""
_MIG_END = """\
| `memorySlice0`, … | quantity | The memory slices of a MIG device that is there, where they fit into the budget. | `1` |
"""
_TAINTS = """
## Taints

| key | effect | meaning |
| --- | --- | --- |
| `gpu.nvidia.com/allocator` = `controller` | NoSchedule | the device is the controller's; kube-scheduler leaves it alone |
| `gpu.nvidia.com/allocator` = `draining` | NoSchedule | it changes sides, and nobody allocates it ([fence.md](fence.md)) |
| `gpu.nvidia.com/gpu-lost` | NoSchedule | the node no longer has the device, and a claim still holds it |
| `gpu.nvidia.com/driver-away` | NoSchedule | the node's driver has not answered for a minute: nothing can be prepared there |
| `gpu.nvidia.com/mig-leftover` | NoSchedule | a MIG instance whose claim is gone still lies there, and will be removed |
| `gpu.nvidia.com/xid`, `ecc`, `recovery`, `nvlink`, `remapped-rows`, `thermal`, `power-brake`, `fabric`, `unmonitored` \
| NoSchedule, NoExecute or None | something is wrong with the GPU, or worth knowing ([health.md](health.md)) |
"""


def render_attributes_page() -> str:
    """The whole page."""
    nvidias = "".join(_line(row) for row in WHOLE_GPU_ROWS if row.is_nvidias)
    ours = "".join(_line(row) for row in WHOLE_GPU_ROWS if not row.is_nvidias)
    mig = "".join(_line(row) for row in PARTITION_ROWS)
    return f"{_HEAD}{_NVIDIAS}{_TABLE}{nvidias}{_OURS}{_TABLE}{ours}{_SETS}{_MIG}{_TABLE}{mig}{_MIG_END}{_TAINTS}"


def _line(row: Row | PartitionRow) -> str:
    return f"| `{row.name}` | {row.type} | {row.meaning} | `{row.example}` |\n"
