"""``kubectl gpu fragmentation`` for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from driver.cli.gpu.tables import WHOSE, describe_way, keep_readable, lines, table, take_note, title
from driver.cli.gpu.views import FragmentationView, FreeNodeView, FreeProductView, LargestView
from driver.cli.gpu.words import count, join_names

_MOST_NODES = 20
_SCOPES = {"nvlink": "all on NVLink", "numa": "one NUMA node", "pcie": "one PCIe root", "node": "one node"}


def build_fragmentation_tables(view: FragmentationView, width: int, now_s: float, *, is_full: bool) -> RenderableType:
    """Everything. ``is_full``: all nodes, also those that are alike."""
    if not view.nodes:
        head = [Text(f"there are no devices of {view.driver}", style="bold")]
        return Group(*head, *take_note(view.notes, width))
    parts: list[RenderableType] = [_headline(view)]
    sizes = _sizes(view.products)
    parts += [Text(), title("Free sets of GPUs, and how many there could be"), _product_table(view.products, sizes)]
    parts += [Text(), title("The largest request that fits now"), _largest_table(view.largest), *_ways(view, width, now_s)]
    parts += [Text(), title("Nodes"), _node_table(view.nodes, sizes, width, is_full=is_full)]
    parts += _partitions(view.nodes, width)
    return Group(*parts, *take_note(view.notes, width))


def _headline(view: FragmentationView) -> Text:
    free, gpus = sum(each.free for each in view.products), sum(each.gpus for each in view.products)
    text = Text(f"{free} of {count(gpus, 'GPU')} free", style="bold")
    text.append(f" on {count(len(view.nodes), 'node')}", style="not bold")
    return text


def _sizes(products: Iterable[FreeProductView]) -> list[str]:
    return sorted({size for each in products for size in each.sets if size != "1"}, key=int, reverse=True)


def _product_table(products: Iterable[FreeProductView], sizes: Sequence[str]) -> Table:
    made = table(
        ("product", "wrap"),
        ("allocator", "left"),
        ("nodes", "right"),
        ("GPUs", "right"),
        ("free", "right"),
        *((f"{size}s", "right") for size in sizes),
    )
    for each in products:
        cells = (_set_cell(each.sets.get(size), each.possible.get(size)) for size in sizes)
        row = (each.product or "-", WHOSE[each.allocator], str(each.nodes), str(each.gpus), str(each.free))
        made.add_row(*row, *cells)
    return made


def _set_cell(number: int | None, possible: int | None) -> Text:
    """``2/5``: red where what is free is all in pieces."""
    if number is None or possible is None:
        return Text("-", style="dim")
    style = "" if number == possible else "yellow" if number else "red"
    return Text(f"{number}/{possible}", style=style)


def _largest_table(largest: Iterable[LargestView]) -> Table:
    made = table(("allocator", "left"), ("scope", "left"), ("GPUs", "right"), ("on", "wrap"))
    for each in largest:
        where = f"{count(len(each.nodes), 'node')}: {join_names(each.nodes)}" if each.nodes else "nowhere"
        made.add_row(WHOSE[each.allocator], _SCOPES[each.scope], str(each.size), where)
    return made


def _ways(view: FragmentationView, width: int, now_s: float) -> list[Text]:
    """What is in the way of the next larger size; scopes that say the same are said once."""
    found: list[Text] = []
    seen: set[object] = set()
    for each in view.largest:
        key = (each.allocator, each.next_size, tuple((way.node, way.held_by) for way in each.ways))
        if not each.ways or key in seen:
            continue
        seen.add(key)
        what = f"{count(each.next_size or 0, 'GPU')}, {_SCOPES[each.scope]}"
        found += [Text(), title(f"In the way of {what} ({WHOSE[each.allocator]})")]
        for way in each.ways:
            found += lines(f"{way.node}: {describe_way(way, now_s)}", width)
    return found


def _node_table(nodes: Sequence[FreeNodeView], sizes: Sequence[str], width: int, *, is_full: bool) -> Table:
    made = table(
        ("node", "wrap"),
        ("allocator", "left"),
        ("GPUs", "right"),
        ("free", "right"),
        ("unfit", "right"),
        *((f"{size}s", "right") for size in sizes),
        ("islands", "wrap"),
    )
    groups = [[each] for each in nodes] if is_full or len(nodes) <= _MOST_NODES else _alike(nodes)
    names = [join_names([one.node for one in group], 1) + " (cordoned)" * group[0].is_cordoned for group in groups]
    keep_readable(made, names, width)
    for name, group in zip(names, groups, strict=True):
        each = group[0]
        sets = (str(each.sets.get(size, "-")) for size in sizes)
        islands = " ".join(f"{one.free}/{one.gpus}" for one in each.islands if one.gpus > 1)
        row = (name, WHOSE[each.allocator], str(each.gpus), str(each.free), str(each.unavailable))
        made.add_row(*row, *sets, islands or "-")
    return made


def _alike(nodes: Sequence[FreeNodeView]) -> list[list[FreeNodeView]]:
    """Nodes that have the same to say, together; those with the most free first."""

    def key(each: FreeNodeView) -> tuple[object, ...]:
        islands = tuple(sorted((one.free, one.gpus) for one in each.islands))
        return (each.allocator, each.is_cordoned, -each.free, each.gpus, each.unavailable, islands, tuple(each.sets.items()))

    ordered = sorted(nodes, key=lambda each: (key(each), each.node))
    return [list(group) for _, group in groupby(ordered, key=key)]


def _partitions(nodes: Iterable[FreeNodeView], width: int) -> list[Text]:
    said = []
    for each in nodes:
        if each.partitions:
            free = ", ".join(f"{number} x {profile}" for profile, number in each.partitions.items())
            said += lines(f"{each.node}: {free}", width)
    return [Text(), title("MIG devices that are free, each looked at alone"), *said[:_MOST_NODES]] if said else []
