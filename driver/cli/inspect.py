"""``gpu-dra inspect``: the node as the driver sees it. Reads, prints, changes nothing."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from typing import TYPE_CHECKING

from driver.cli.parser import Commands
from driver.config.load import add_flags, load
from driver.config.settings import Settings

if TYPE_CHECKING:
    from driver.nvml.readings import MachineReading
    from driver.resourceslice.build import BuiltDevices
    from driver.topology.model import Topology

_SETTINGS = ("nvml", "nvml_library", "sys_root", "driver_root", "mig", "node_name", "driver_name", "allocation")
_SLICE_FORMS = frozenset({"yaml", "slices"})

_DESCRIPTION = """\
Show the node as the driver sees it: its GPUs, the links between them, the sets
that claims can ask for (island, quad, pair), PCIe roots, NUMA nodes, the MIG
profiles where NVML tells them, and the MIG devices that are there. It reads, and
changes nothing: a mock machine lives in a temporary folder that goes away again."""

_EPILOG = """\
output:
  table   for people: fits 80 columns; colour on a terminal, none with NO_COLOR
  json    for programs: one object, format gpu-dra.io/inspect/v1, fields are only added
  yaml    the ResourceSlices that this node would publish, one document each
  slices  the same as one JSON List

Without the cluster the node's uid is not known: on it, the values of nvlinkIsland,
nvlinkQuad, nvlinkPair and nvlinkDomain start with 12 other hex digits. Nor is its
version: MIG devices that claims make are shown as from Kubernetes 1.36 on.

examples:
  gpu-dra inspect
  gpu-dra inspect --nvml mock:dgx-1v
  gpu-dra inspect --nvml mock:a100-pcie-bridged -o json | jq .islands
  gpu-dra inspect --nvml mock:gb200-tray --mig off -o yaml

exit codes: 0 shown, also when a GPU is left out (it is named); 1 NVML does not
answer; 2 wrong command line, settings or machine.
Next: docs/mock-machines.md has the machines, docs/attributes.md what claims can select by."""


def add_parser(commands: Commands) -> None:
    """The command's flags and help."""
    parser = commands.add_parser(
        "inspect", help="show this node, or a mock machine, as the driver sees it", description=_DESCRIPTION, epilog=_EPILOG
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json", "yaml", "slices"),
        default="table",
        help="form of the output (default: table)",
    )
    add_flags(parser, _SETTINGS)


def run(args: argparse.Namespace) -> int:
    """Read the machine once, and print it.

    Raises:
        NvmlError: NVML does not answer.
        MachineInvalid, SettingsInvalid: what was asked for is wrong.
    """
    from driver.cli.backend import open_for_now  # noqa: PLC0415  (with it come msgspec and all of the machine)
    from driver.topology.build import build_topology  # noqa: PLC0415

    settings = load(args, os.environ)
    with open_for_now(settings) as backend:
        reading = backend.read()
    _show(reading, build_topology(reading), settings, args.output)
    return 0


def _show(reading: MachineReading, topology: Topology, settings: Settings, form: str) -> None:
    from driver.cli.node_view import build_node_view  # noqa: PLC0415
    from driver.resourceslice.attributes import Allocator  # noqa: PLC0415
    from driver.resourceslice.build import build_devices  # noqa: PLC0415
    from driver.topology.mig_offer import MigSetting, OfferInputs, build_offers  # noqa: PLC0415

    node = settings.node_name or socket.gethostname().lower()
    offers = build_offers(topology, OfferInputs(setting=MigSetting(settings.mig), has_counters=True))
    built = build_devices(topology, node_uid=node, allocator=Allocator(settings.allocation), offers=offers)
    if form in _SLICE_FORMS:
        _print_slices(built, driver=settings.driver_name, node=node, form=form)
        return
    view = build_node_view(node, reading, topology, offers, built.notes)
    if form == "json":
        _print_json(view)
    else:
        from driver.cli.tables import build_node_tables, open_console  # noqa: PLC0415

        console = open_console()
        console.print(build_node_tables(view, console.width))


def _print_slices(built: BuiltDevices, *, driver: str, node: str, form: str) -> None:
    from driver.cli.slice_objects import build_slice_objects  # noqa: PLC0415
    from driver.resourceslice.build import build_slice_contents  # noqa: PLC0415

    objects = build_slice_objects(build_slice_contents(built.devices, built.counter_sets), driver=driver, node=node)
    if form == "slices":
        _print_json({"apiVersion": "v1", "kind": "List", "items": objects})
        return
    import yaml  # noqa: PLC0415

    yaml.safe_dump_all(objects, sys.stdout, sort_keys=False, width=120)


def _print_json(value: object) -> None:
    from driver.cli.view import encode_json  # noqa: PLC0415

    print(encode_json(value))
