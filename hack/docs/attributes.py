"""``docs/attributes.md``, from the table that the driver publishes by."""

from __future__ import annotations

from driver.resourceslice.attributes import WHOLE_GPU_ROWS, Row

_HEAD = """\
# Attributes and capacities

<!-- Made by `python -m hack.docs` from driver/resourceslice/attributes.py. Change that file, not this one. -->

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

A GPU in MIG mode is not published as a whole GPU: it and its partitions would be offered at the same time.

## Taints

| key | effect | meaning |
| --- | --- | --- |
| `gpu.nvidia.com/allocator` = `controller` | NoSchedule | the device is the controller's; kube-scheduler leaves it alone |
| `gpu.nvidia.com/gpu-lost` | NoSchedule | the node no longer has the device, and a claim still holds it |
"""


def render_attributes_page() -> str:
    """The whole page."""
    nvidias = "".join(_line(row) for row in WHOLE_GPU_ROWS if row.is_nvidias)
    ours = "".join(_line(row) for row in WHOLE_GPU_ROWS if not row.is_nvidias)
    return f"{_HEAD}{_NVIDIAS}{_TABLE}{nvidias}{_OURS}{_TABLE}{ours}{_SETS}"


def _line(row: Row) -> str:
    return f"| `{row.name}` | {row.type} | {row.meaning} | `{row.example}` |\n"
