"""What ``kubectl gpu topology`` draws: the same links as the machine has, in the terminal and as a picture."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from itertools import combinations

import msgspec
import pytest
from rich.console import Console

from driver.cli.gpu.fleet_picture import draw_fleet
from driver.cli.gpu.node_layout import Layout, Room, build_layout
from driver.cli.gpu.node_picture import draw_node
from driver.cli.gpu.svg import shorten
from driver.cli.gpu.topology_tables import build_topology_tables
from driver.cli.gpu.topology_views import NodeTopologyView, TopologyView
from tests.unit.cli.gpu.fleets import XID, partitioned, taint, topology
from tests.unit.cli.gpu.stories import gpu, islands, occupy
from tests.unit.controller.world import World, gpus, machine

MACHINES = ("dgx-h100", "dgx-1v", "dgx-1p", "dgx-2", "a100-pcie-bridged", "gb200-tray", "l40s", "hgx-a100-4x2", "t4")
SVG = "{http://www.w3.org/2000/svg}"


def one(kind: str) -> World:
    """A node of a machine, two GPUs of which a pod has."""
    world = World()
    world.classes()
    world.node("node-a", machine(kind))
    occupy(world, "train", "node-a", gpu(kind, 0))
    return world


def node_of(kind: str) -> NodeTopologyView:
    return topology(one(kind))[1].nodes[0]


def drawn(view: TopologyView, *, width: int = 80, is_single: bool = True) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, emoji=False)
    console.print(build_topology_tables(view, width, is_single=is_single, is_full=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def test_a_node_drawn() -> None:
    assert (
        drawn(topology(one("hgx-a100-4x2"))[1])
        == """\
Node node-a: 8 x A100-SXM4-80GB, island of 4 + island of 4, 2 NUMA nodes

  NUMA node 0
  └─ pci0000:00 ─[0 #] NV12─[1 .] NV12─[2 .] NV12─[3 .] NV12
  NUMA node 1
  └─ pci0000:80 ─[4 .] NV12─[5 .] NV12─[6 .] NV12─[7 .] NV12
  # held  . free

Links
        0    1    2    3    4    5    6    7
   0    X NV12 NV12 NV12  SYS  SYS  SYS  SYS
   1 NV12    X NV12 NV12  SYS  SYS  SYS  SYS
   2 NV12 NV12    X NV12  SYS  SYS  SYS  SYS
   3 NV12 NV12 NV12    X  SYS  SYS  SYS  SYS
   4  SYS  SYS  SYS  SYS    X NV12 NV12 NV12
   5  SYS  SYS  SYS  SYS NV12    X NV12 NV12
   6  SYS  SYS  SYS  SYS NV12 NV12    X NV12
   7  SYS  SYS  SYS  SYS NV12 NV12 NV12    X
    NVn  n NVLinks
    SYS  PCIe: through the link between CPU sockets

Sets
  nvlinkIsland  {0 1 2 3}  {4 5 6 7}
  nvlinkQuad    {0 1 2 3}  {4 5 6 7}
  nvlinkPair    {0 1}  {2 3}  {4 5}  {6 7}
  PCIe root     pci0000:00 {0 1 2 3}  pci0000:80 {4 5 6 7}
  NUMA node     0 {0 1 2 3}  1 {4 5 6 7}

slices tell islands, quads, pairs, and links a GPU: the matrix follows from them
(docs/status.md); PCIe is known as far as roots and NUMA nodes. On the node,
gpu-dra inspect shows what the machine itself says."""
    )


def test_the_mesh_of_a_dgx_1_is_known() -> None:
    links = {each.gpus: each.nvlinks for each in node_of("dgx-1v").links}
    assert [links[0, other] for other in range(1, 8)] == [1, 1, 2, 2, 0, 0, 0]


@pytest.mark.parametrize("kind", MACHINES)
def test_every_pair_of_gpus_has_one_link_entry(kind: str) -> None:
    node = node_of(kind)
    assert [each.gpus for each in node.links] == list(combinations(range(len(node.gpus)), 2))


def test_a_fabric_over_nodes_is_named() -> None:
    assert "fabric" in drawn(topology(one("gb200-tray"))[1])


def test_gpus_that_are_published_in_parts_alone_are_named() -> None:
    node = node_of("dgx-h100")
    parts = msgspec.structs.replace(node, parts_only=(node.gpus[0].status,))
    view = TopologyView(driver="gpu.nvidia.com", nodes=(parts,), notes=())
    assert "only parts of these GPUs are published" in drawn(view)


def test_a_fleet_is_told_by_its_kinds_of_machines() -> None:
    world = islands("node-a", "node-b")
    world.node("node-c", machine("dgx-h100"))
    shown = drawn(topology(world)[1], is_single=False)
    assert "    2  8 x A100-SXM4-80GB, island of 4" in shown
    assert "one of them drawn: kubectl gpu topology NODE" in shown


def test_no_devices_are_said() -> None:
    assert (
        drawn(TopologyView(driver="gpu.nvidia.com", nodes=(), notes=()), is_single=False)
        == "there are no devices of gpu.nvidia.com"
    )


@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize("kind", MACHINES)
def test_the_drawing_fits_the_terminal(kind: str, width: int) -> None:
    assert max(len(line) for line in drawn(topology(one(kind))[1], width=width).splitlines()) <= width


def test_json_comes_back_as_it_was() -> None:
    view = topology(one("dgx-1v"))[1]
    assert msgspec.json.decode(msgspec.json.encode(view), type=TopologyView) == view
    assert view.format == "gpu-dra.io/topology/v1"


def parse(picture: str) -> tuple[ET.Element, set[str]]:
    """The document, and all its texts."""
    root = ET.fromstring(picture)
    return root, {each.text or "" for each in root.iter() if each.tag in (f"{SVG}text", f"{SVG}title")}


@pytest.mark.parametrize("kind", MACHINES)
def test_the_picture_names_every_gpu_and_every_island(kind: str) -> None:
    node = node_of(kind)
    root, texts = parse(draw_node(node, ()))
    assert {f"GPU {each.gpu}" for each in node.gpus} <= texts
    assert all(f"NVLink island of {len(each)}" in texts for each in node.islands)
    assert "team/train" in texts
    assert {each.tag for each in root.iter()} <= {
        f"{SVG}{name}" for name in ("svg", "title", "defs", "pattern", "rect", "text", "path", "g")
    }


def test_a_sick_gpu_says_what_it_has() -> None:
    world = one("dgx-h100")
    taint(world, "node-a", "dgx-h100", 3, XID)
    seen, view = topology(world)
    _, texts = parse(draw_node(view.nodes[0], seen.troubles))
    assert {"XID 79", "unfit: tainted"} <= texts


def test_parts_of_a_gpu_are_drawn_by_memory_slice() -> None:
    root, texts = parse(draw_node(topology(partitioned())[1].nodes[0], ()))
    assert "2 parts, 2 claims" in texts
    assert "GPU 0, gpu-0: parts of it held\n1g.10gb: team/small (pod small)\n3g.40gb: team/large (pod large)" in texts
    assert sum(each.get("rx") == "2" for each in root.iter(f"{SVG}rect")) == 2


def test_names_cannot_break_the_picture() -> None:
    node = msgspec.structs.replace(node_of("t4"), node='<b>&"')
    assert 'Node <b>&"' in parse(draw_node(node, ()))[1]


@pytest.mark.parametrize("room", list(Room), ids=lambda room: room.name)
@pytest.mark.parametrize("kind", MACHINES)
def test_cards_stand_apart_within_the_picture(kind: str, room: Room) -> None:
    layout: Layout = build_layout(node_of(kind), room)
    boxes = list(layout.cards.values())
    for a, b in combinations(boxes, 2):
        assert a.right < b.x or b.right < a.x or a.bottom < b.y or b.bottom < a.y
    for frame in layout.frames:
        inside = [box for box in boxes if frame.box.x < box.middle < frame.box.right and frame.box.y < box.y < frame.box.bottom]
        assert all(frame.box.x < box.x and box.right < frame.box.right and box.bottom < frame.box.bottom for box in inside)
    assert all(box.right < layout.width and box.bottom < layout.height for box in boxes)


def test_sixty_four_gpus_have_a_card_each() -> None:
    world = World()
    world.classes()
    world.node("wide", gpus(64))
    layout = build_layout(topology(world)[1].nodes[0], Room.NONE)
    assert len(layout.cards) == 64
    assert [len(row) for row in layout.rows] == [8] * 8


def test_the_fleets_picture_has_a_square_for_each_gpu() -> None:
    world = islands("node-a", "node-b")
    world.node("node-u", machine("dgx-2", "scheduler"), unschedulable=True)
    seen, _ = topology(world)
    root, texts = parse(draw_fleet(seen))
    assert sum(each.get("width") == "14.0" and each.get("rx") == "3" for each in root.iter(f"{SVG}rect")) == 32 + 2
    assert {"node-a", "node-u", "A100-SXM4-80GB", "32 GPUs on 3 nodes: 8 held, 24 free"} <= texts
    assert "node-u (cordoned): 0 of 16 GPUs held" in texts


def test_a_long_name_loses_its_middle() -> None:
    assert [shorten("team/a-very-long-name", most) for most in (40, 10)] == ["team/a-very-long-name", "team…-name"]


def test_names_stay_within_their_tiles() -> None:
    """As broad as letters come, 7.4 pixels: a name that is too long loses its middle."""
    world = World()
    world.classes()
    for number in range(4):
        world.node(f"rack-{number}-a-long-name-of-a-node.example.com", machine("gb200-tray"))
    root, texts = parse(draw_fleet(topology(world)[0]))
    names = [each for each in texts if each.startswith("rack-") and ":" not in each]
    tile = max(float(each.get("width") or 0) for each in root.iter(f"{SVG}rect") if each.get("rx") == "6")
    assert len(names) == 4
    assert all(len(name) * 7.4 <= tile - 16 for name in names)
