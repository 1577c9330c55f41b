"""``kubectl gpu topology``: how the GPUs of a node are linked, as a drawing in the terminal or a picture."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from driver.cli.gpu.flags import add_common_flags, open_client, show, split_schedulers
from driver.cli.parser import Commands
from driver.errors import NotFound, SettingsInvalid

if TYPE_CHECKING:
    from driver.cli.gpu.fleet_reading import FleetReading
    from driver.cli.gpu.status_views import StatusView
    from driver.cli.gpu.topology_views import TopologyView

_DESCRIPTION = """\
How the GPUs of a node hang together: NUMA nodes, PCIe roots, NVLinks, and the sets that
claims can ask for, with who has which GPU. Without a node, the kinds of machines of the
cluster. --picture draws the node, or without one the fleet's occupancy, as an SVG file
that every browser shows. The cluster is read once; nothing is changed."""

_EPILOG = """\
It is told by the slices' attributes: islands, quads, pairs, the number of NVLinks, PCIe
roots and NUMA nodes. A slice has no link matrix, so that one is derived: exact through
switches, with bridges and for DGX-1; in another mesh NVn is the links of the GPU, not of
the pair. On the node itself, gpu-dra inspect shows what the machine says.

examples:
  kubectl gpu topology                                 kinds of machines
  kubectl gpu topology node-a                          one of them, drawn
  kubectl gpu topology node-a --picture node-a.svg     as a picture
  kubectl gpu topology --picture fleet.svg             the fleet's occupancy
  kubectl gpu topology node-a -o json | jq .nodes[0].islands

exit codes: 0 shown; 1 there is no such node, or the cluster cannot be read; 2 the
command line or the kubeconfig is wrong, or the picture cannot be written.
Next: kubectl gpu status, docs/status.md."""


def add_parser(commands: Commands) -> None:
    """The command's flags and help."""
    parser = commands.add_parser(
        "topology", help="how the GPUs of a node are linked, also as a picture", description=_DESCRIPTION, epilog=_EPILOG
    )
    parser.add_argument("name", metavar="NODE", nargs="?", help="a node: NODE or node/NODE")
    parser.add_argument(
        "--picture", metavar="FILE", help="write a picture (SVG) to this file; - is stdout, instead of the table"
    )
    add_common_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Read the cluster, and draw.

    Raises:
        NotFound: there is no such node.
        SettingsInvalid, ApiError: the cluster cannot be read, or the file not written.
    """
    from driver.cli.gpu.claim_status import find_subject  # noqa: PLC0415  (not needed for --help)
    from driver.cli.gpu.fleet_reading import read_fleet  # noqa: PLC0415
    from driver.cli.gpu.fleet_status import build_status  # noqa: PLC0415
    from driver.cli.gpu.topology_tables import build_topology_tables  # noqa: PLC0415
    from driver.kube.credentials import read_namespace  # noqa: PLC0415

    namespace = read_namespace(args.kubeconfig, args.context)
    with open_client(args) as client:
        reading = read_fleet(client, args.driver_name, split_schedulers(args), namespace)
    name = None if args.name is None else args.name.removeprefix("node/")
    status = build_status(reading, None if name is None else find_subject(reading, namespace, f"node/{name}"))
    if name is not None and not status.nodes:
        raise NotFound(f"topology {name}", 0, "; ".join(status.notes) or "its slices are not complete; try again")
    view = _build_view(reading, status)
    if args.picture is not None:
        _write_picture(args.picture, _draw(view, status, is_single=name is not None))
    if args.picture != "-":
        tables = build_topology_tables
        show(view, args, lambda width: tables(view, width, is_single=name is not None, is_full=args.all_nodes))
    return 0


def _build_view(reading: FleetReading, status: StatusView) -> TopologyView:
    from driver.cli.gpu.node_topology import build_node_topology  # noqa: PLC0415
    from driver.cli.gpu.topology_views import TopologyView  # noqa: PLC0415

    cluster = reading.cluster
    nodes = tuple(build_node_topology(cluster.driver, cluster.fleet.nodes[each.node], each) for each in status.nodes)
    return TopologyView(driver=cluster.driver, nodes=nodes, notes=status.notes)


def _draw(view: TopologyView, status: StatusView, *, is_single: bool) -> str:
    from driver.cli.gpu.fleet_picture import draw_fleet  # noqa: PLC0415
    from driver.cli.gpu.node_picture import draw_node  # noqa: PLC0415

    return draw_node(view.nodes[0], status.troubles) if is_single else draw_fleet(status)


def _write_picture(name: str, picture: str) -> None:
    if name == "-":
        print(picture, end="")
        return
    try:
        Path(name).write_text(picture, encoding="utf-8")
    except OSError as err:
        raise SettingsInvalid(
            f"cannot write the picture to {name}: {err.strerror}; --picture names a file, or - for stdout"
        ) from err
