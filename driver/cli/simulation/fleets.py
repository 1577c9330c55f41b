"""The fleet of a simulation: nodes of mock machines, or of a CSV list of nodes in the openb form."""

from __future__ import annotations

import csv
import difflib
import io
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from driver.allocator.device_node import SelectorEngine
from driver.allocator.fleet import Fleet
from driver.allocator.pools import Pool
from driver.allocator.taints import Fence
from driver.api.resource_v1 import Attribute, Device, Taint
from driver.cli.simulation.arrivals import read_list
from driver.errors import SettingsInvalid

DRIVER = "gpu.nvidia.com"
FENCE = Fence(key="gpu.nvidia.com/allocator", value="controller")
"""All nodes are the controller's, as on a cluster whose plugins run with ``--allocation controller``."""

_MOST_GPUS = 64


def build_fleet(nodes: Sequence[tuple[str, tuple[Device, ...]]], engine: SelectorEngine) -> Fleet:
    """A fleet of these nodes, nothing taken."""
    fleet = Fleet(engine, FENCE)
    for name, devices in nodes:
        fleet.set_node(name, [Pool(driver=DRIVER, name=name, node=name, devices=devices)])
    return fleet


def name_nodes(count: int, devices: tuple[Device, ...]) -> list[tuple[str, tuple[Device, ...]]]:
    """So many nodes of one machine, named in order."""
    width = max(2, len(str(count - 1)))
    return [(f"node-{number:0{width}}", devices) for number in range(count)]


@cache
def read_machine_devices(machine: str) -> tuple[Device, ...]:
    """The devices that a mock machine publishes.

    Raises:
        MachineInvalid: there is no such machine, or its file is wrong.
    """
    from driver.cli.backend import initialized, open_mock_backend  # noqa: PLC0415  (with it come all of NVML and the mock)
    from driver.resourceslice.attributes import Allocator  # noqa: PLC0415
    from driver.resourceslice.build import build_devices  # noqa: PLC0415
    from driver.topology.build import build_topology  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder, initialized(open_mock_backend(machine, Path(folder))) as backend:
        topology = build_topology(backend.read())
    return build_devices(topology, node_uid=machine, allocator=Allocator.CONTROLLER).devices


def read_nodes(path: Path) -> list[tuple[str, tuple[Device, ...]]]:
    """The nodes of a CSV list with the columns ``sn``, ``gpu`` and ``model``; their GPUs are linked by nothing.

    Raises:
        SettingsInvalid: it cannot be read, or is not such a list.
    """
    reader = csv.DictReader(io.StringIO(read_list(path, "--nodes").decode("utf-8-sig", errors="replace")))
    if not {"sn", "gpu"} <= set(reader.fieldnames or ()):
        found = f"; this one has {', '.join(reader.fieldnames)}" if reader.fieldnames else ""
        raise SettingsInvalid(f"--nodes {path}: a CSV list of nodes has the columns sn, gpu and model{found}")
    nodes: dict[str, tuple[Device, ...]] = {}
    for row in reader:
        where = f"--nodes {path}: line {reader.line_num}"
        count = _parse_count(row["gpu"], where)
        if row["sn"] in nodes:
            raise SettingsInvalid(f"{where}: node {row['sn']} is there twice; give each a name (sn) of its own")
        if count:
            nodes[row["sn"]] = plain_devices(count, row.get("model") or "GPU")
    if not nodes:
        raise SettingsInvalid(f"--nodes {path}: no node with a GPU; docs/simulate.md has the form")
    return list(nodes.items())


def _parse_count(text: str | None, where: str) -> int:
    """How many GPUs a node has; nothing is none."""
    try:
        count = int(text or 0)
    except ValueError:
        raise SettingsInvalid(f"{where}: gpu: {text!r} is no whole number") from None
    if not 0 <= count <= _MOST_GPUS:
        raise SettingsInvalid(f"{where}: {count} GPUs; 0 to {_MOST_GPUS} are possible")
    return count


@cache
def plain_devices(count: int, model: str) -> tuple[Device, ...]:
    """GPUs of which nothing is known but the model."""
    facts = {"type": Attribute(string="gpu"), "productName": Attribute(string=model)}
    fence = Taint(key=FENCE.key, value=FENCE.value, effect="NoSchedule")
    return tuple(Device(name=f"gpu-0000-{number:02x}-00-0", attributes=facts, taints=(fence,)) for number in range(count))


def check_attribute(name: str | None, nodes: Sequence[tuple[str, tuple[Device, ...]]], where: str) -> None:
    """A pod's ``matchAttribute`` is one that devices of the fleet have.

    Raises:
        SettingsInvalid: none has it; the text has the nearest that some have.
    """
    if name is None:
        return
    domain, _, own = name.rpartition("/")
    known = {attribute for _, devices in nodes for device in devices for attribute in device.attributes}
    full = {each if "/" in each else f"{DRIVER}/{each}" for each in known}
    if name in full:
        return
    by_folded = {each.casefold(): each for each in sorted(full)}
    wanted = name if domain else f"{DRIVER}/{own}"
    near = difflib.get_close_matches(wanted.casefold(), list(by_folded), n=1)
    hint = f"; did you mean {by_folded[near[0]]}?" if near else "; docs/attributes.md lists them"
    raise SettingsInvalid(f"{where}: no device of these nodes has the attribute {name}{hint}")
