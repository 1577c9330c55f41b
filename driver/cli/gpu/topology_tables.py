"""``kubectl gpu topology`` for people: a drawing of the node, its link matrix, and the sets that claims can ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from driver.cli.gpu.node_status_tables import MARKS, build_bar, build_bar_legend, is_held_sick
from driver.cli.gpu.tables import lines, short_product, table, take_note, title
from driver.cli.gpu.topology_views import NodeTopologyView, PlacedGpuView, TopologyView
from driver.cli.gpu.words import count
from driver.cli.link_tables import braced, build_matrix, build_set_lines, list_sets

_MOST_NODES = 20
_DERIVED = (
    "slices tell islands, quads, pairs, and links a GPU: the matrix follows from them (docs/status.md); PCIe is known as far "
    "as roots and NUMA nodes. On the node, gpu-dra inspect shows what the machine itself says."
)


def build_topology_tables(view: TopologyView, width: int, *, is_single: bool, is_full: bool) -> RenderableType:
    """One node drawn, or a line for each kind of machine."""
    if not view.nodes:
        head: list[RenderableType] = [Text(f"there are no devices of {view.driver}", style="bold")]
    elif is_single:
        head = [part for node in view.nodes for part in _node(node, width)]
    else:
        head = _fleet(view.nodes, is_full=is_full)
    return Group(*head, *take_note(view.notes, width))


def _node(node: NodeTopologyView, width: int) -> list[RenderableType]:
    parts: list[RenderableType] = [*lines(f"Node {node.node}: {_machine(node)}", width, indent=0, style="bold")]
    if node.gpus:
        parts += [Text(), *_drawing(node.gpus, width), *build_bar_legend([each.status for each in node.gpus])]
    if len(node.gpus) > 1:
        parts += [Text(), title("Links"), *build_matrix(node.links, len(node.gpus), width)]
    if node.gpus:
        domains = sorted({each.domain for each in node.gpus if each.domain is not None and "-domain-" not in each.domain})
        said = list_sets(node.gpus, node)
        said += [("fabric", [name, braced(each.gpu for each in node.gpus if each.domain == name)]) for name in domains]
        parts += [Text(), title("Sets"), *build_set_lines(said, width)]
    if node.parts_only:
        names = ", ".join(each.device for each in node.parts_only)
        parts += lines(f"only parts of these GPUs are published, so their links are not known: {names}", width)
    return [*parts, Text(), *lines(_DERIVED, width, indent=0, style="dim")]


def _drawing(gpus: Sequence[PlacedGpuView], width: int) -> list[Text]:
    """NUMA nodes, below them PCIe roots with their GPUs: ``├─ pci0000:4a ─[0 #] NV18``."""
    drawn: list[Text] = []
    for numa, members in _group(gpus, lambda each: each.numa_node):
        drawn.append(Text(f"  NUMA node {'not told' if numa is None else numa}"))
        roots = _group(members, lambda each: each.pcie_root)
        for number, (root, below) in enumerate(roots):
            is_last = number == len(roots) - 1
            head = f"  {'└' if is_last else '├'}─ {root or 'PCIe root not told'} "
            drawn += _root(head, f"  {' ' if is_last else '│'}", below, width)
    return drawn


def _root(head: str, stem: str, gpus: Sequence[PlacedGpuView], width: int) -> list[Text]:
    """One PCIe root, in more lines where its GPUs do not fit one."""
    drawn = [Text(head)]
    for each in gpus:
        cell = _cell(each)
        if drawn[-1].cell_len + cell.cell_len > width:
            drawn.append(Text(stem.ljust(len(head))))
        drawn[-1].append_text(cell)
    return drawn


def _cell(gpu: PlacedGpuView) -> Text:
    """``[0 #]``."""
    is_sick = is_held_sick(gpu.status)
    mark, style, _ = MARKS[gpu.status.state]
    cell = Text(f"─[{gpu.gpu} ").append("!" if is_sick else mark, style="bold red" if is_sick else style).append("]")
    return cell.append(f" NV{gpu.nvlinks}" if gpu.nvlinks else "", style="green")


def _group(gpus: Iterable[PlacedGpuView], fact: Callable[[PlacedGpuView], object]) -> list[tuple[object, list[PlacedGpuView]]]:
    members: dict[object, list[PlacedGpuView]] = {}
    for each in gpus:
        members.setdefault(fact(each), []).append(each)
    return list(members.items())


def _machine(node: NodeTopologyView) -> str:
    sizes = sorted((len(each) for each in node.islands), reverse=True)
    islands = " + ".join(f"island of {size}" for size in sizes[:4]) + (f" and {len(sizes) - 4} more" if len(sizes) > 4 else "")
    numas = len({each.numa_node for each in node.gpus})
    return f"{len(node.gpus)} x {short_product(node.product)}, {islands or 'no NVLink'}, {count(numas, 'NUMA node')}"


def _fleet(nodes: Sequence[NodeTopologyView], *, is_full: bool) -> list[RenderableType]:
    made = table(("nodes", "right"), ("machine", "wrap"), ("such as", "wrap"), ("GPUs", "wrap"))
    groups: dict[str, list[NodeTopologyView]] = {}
    for each in nodes:
        groups.setdefault(each.node if is_full else _machine(each), []).append(each)
    for found in list(groups.values())[: None if is_full else _MOST_NODES]:
        first = found[0]
        made.add_row(str(len(found)), _machine(first), first.node, build_bar([each.status for each in first.gpus]))
    legend = build_bar_legend(each.status for node in nodes for each in node.gpus)
    return [title("Machines"), made, *legend, Text("  one of them drawn: kubectl gpu topology NODE", style="cyan")]
