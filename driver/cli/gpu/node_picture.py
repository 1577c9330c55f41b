"""A node's GPUs as a picture: who has them, how they are, and what lies between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from driver.api.quantity import parse_quantity
from driver.cli.gpu.node_layout import Frame, Layout, Room, build_layout
from driver.cli.gpu.node_status_tables import is_held_sick
from driver.cli.gpu.status_views import GpuStatusView, TroubleView
from driver.cli.gpu.svg import (
    BAND,
    DIM,
    FRAME,
    INK,
    PAPER,
    RED,
    STATE_COLOURS,
    STATE_WORDS,
    Box,
    build_document,
    build_legend,
    group,
    holder_colours,
    path,
    rect,
    shorten,
    tag,
    text,
)
from driver.cli.gpu.tables import short_product
from driver.cli.gpu.topology_views import NodeTopologyView, PlacedGpuView
from driver.cli.gpu.words import count, join_names
from driver.cli.view import LinkView

_NAME = 19
"""Characters of a name that fit a card."""


def draw_node(node: NodeTopologyView, troubles: Iterable[TroubleView]) -> str:
    """An SVG document."""
    meshes = _list_meshed(node)
    layout = build_layout(node, _find_room(node, meshes))
    claims = {use.claim: None for gpu in node.gpus for use in gpu.status.uses}
    colours = {claim: holder_colours(number) for number, claim in enumerate(claims)}
    sick: dict[int | None, list[TroubleView]] = {}
    for each in troubles:
        sick.setdefault(each.gpu, []).append(each)
    statuses = [each.status for each in node.gpus]
    parts = [
        text((24, 38), f"Node {node.node}", size=22, weight="700"),
        text((24, 62), _describe(node), size=14, fill=DIM),
        *(part for frame in layout.frames for part in _draw_frame(frame)),
        *_draw_rails(node, layout),
        *(part for link in meshes for part in _draw_link(link, layout)),
        *(_draw_card(gpu, layout.cards[gpu.gpu], colours, sick.get(gpu.gpu, ())) for gpu in node.gpus),
        *build_legend(
            (24, layout.height - 20),
            {each.state for each in statuses},
            {state: fill for state, (_, fill) in STATE_COLOURS.items()},
            is_any_sick=any(is_held_sick(each) for each in statuses),
        ),
    ]
    return build_document(parts, layout.width, layout.height, f"GPUs of node {node.node}")


def _describe(node: NodeTopologyView) -> str:
    free = sum(each.status.state == "free" for each in node.gpus)
    links = {each.nvlinks for each in node.gpus}
    said = f", {next(iter(links))} NVLinks each" if len(links) == 1 and 0 not in links else ""
    return f"{len(node.gpus)} x {short_product(node.product or 'GPU')}{said}; {free} free; allocator: {node.allocator}"


def _find_room(node: NodeTopologyView, meshes: Sequence[LinkView]) -> Room:
    """Room for links: between cards for those of pairs, above them too where more than two GPUs are meshed."""
    if not meshes:
        return Room.NONE
    of_pairs = {tuple(island) for island in node.islands if len(island) == 2}
    return Room.PAIRS if all(each.gpus in of_pairs for each in meshes) else Room.MESH


def _list_meshed(node: NodeTopologyView) -> list[LinkView]:
    """The links to draw one by one: all but those of islands in which every pair is linked alike, through rails."""
    rails = [set(island) for island in _list_railed(node)]
    return [each for each in node.links if each.nvlinks and not any(rail.issuperset(each.gpus) for rail in rails)]


def _list_railed(node: NodeTopologyView) -> list[tuple[int, ...]]:
    """Islands of three or more where every pair has as many links: as through switches, or so the slices say."""
    counts = {each.gpus: each.nvlinks for each in node.links}
    found = []
    for island in node.islands:
        seen = {counts[a, b] for at, a in enumerate(island) for b in island[at + 1 :]}
        if len(island) > 2 and len(seen) == 1:
            found.append(island)
    return found


def _draw_frame(frame: Frame) -> list[str]:
    if frame.is_island:
        box = rect(frame.box, fill="none", stroke=FRAME, width=2, radius=14, dash="7 5")
    else:
        box = rect(frame.box, fill=BAND, stroke="#d5dae1", radius=12)
    return [
        box,
        text((frame.box.x + 12, frame.box.y + 18), frame.label, size=12, fill=FRAME if frame.is_island else DIM, weight="600"),
    ]


def _draw_rails(node: NodeTopologyView, layout: Layout) -> Iterator[str]:
    """For each railed island a rail above each of its rows, held together at the left, and a stub to each GPU."""
    for island in _list_railed(node):
        rows = [[layout.cards[at] for at in row if at in island] for row in layout.rows]
        rows = [row for row in rows if row]
        left = min(box.x for row in rows for box in row) - 18
        width = min(8.0, _stroke(node.gpus[island[0]].nvlinks))
        heights = [row[0].y - 18 for row in rows]
        if len(rows) > 1:
            yield path(f"M{left:.1f} {heights[0]:.1f} V{heights[-1]:.1f}", stroke=FRAME, width=width)
        for row, y in zip(rows, heights, strict=True):
            start = left if len(rows) > 1 else row[0].middle
            yield path(f"M{start:.1f} {y:.1f} H{row[-1].middle:.1f}", stroke=FRAME, width=width)
            for box in row:
                yield path(f"M{box.middle:.1f} {y:.1f} V{box.y:.1f}", stroke=FRAME, width=width)
        for at in island:
            box = layout.cards[at]
            yield from tag(box.middle, box.y - 18, f"NV{node.gpus[at].nvlinks}")


def _stroke(links: int) -> float:
    return min(12.0, 2.0 + links * 0.75)


def _draw_link(link: LinkView, layout: Layout) -> list[str]:
    a, b = (layout.cards[at] for at in link.gpus)
    row_a, row_b = (_row_of(layout, at) for at in link.gpus)
    points, x, y = _route(layout, link, a, b) if row_a == row_b else _cross(a, b)
    tip = f"GPU {link.gpus[0]} and GPU {link.gpus[1]}: {count(link.nvlinks, 'NVLink')}"
    return [group([path(points, stroke=FRAME, width=_stroke(2 * link.nvlinks)), *tag(x, y, f"NV{link.nvlinks}")], tip)]


def _row_of(layout: Layout, gpu: int) -> int:
    return next(number for number, row in enumerate(layout.rows) if gpu in row)


def _route(layout: Layout, link: LinkView, a: Box, b: Box) -> tuple[str, float, float]:
    """Within a row: straight between neighbours, else an arc above it, or below the last row. The path and its middle."""
    row = layout.rows[_row_of(layout, link.gpus[0])]
    apart = abs(row.index(link.gpus[1]) - row.index(link.gpus[0]))
    left, right = (a, b) if a.x < b.x else (b, a)
    if apart == 1:
        y = a.y + a.height / 2
        return f"M{left.right:.1f} {y:.1f} H{right.x:.1f}", (left.right + right.x) / 2, y
    lift = min(22.0 + 18.0 * apart, 76.0)
    start, end = left.middle + 14 * (apart - 1), right.middle - 14 * (apart - 1)
    points = f"M{start:.1f} {a.y:.1f} C{start:.1f} {a.y - lift:.1f} {end:.1f} {a.y - lift:.1f} {end:.1f} {a.y:.1f}"
    return points, (start + end) / 2, a.y - 0.75 * lift


def _cross(a: Box, b: Box) -> tuple[str, float, float]:
    """From row to row."""
    upper, lower = (a, b) if a.y < b.y else (b, a)
    x_upper, x_lower = upper.middle + 50, lower.middle + 50
    points = f"M{x_upper:.1f} {upper.bottom:.1f} L{x_lower:.1f} {lower.y:.1f}"
    return points, (x_upper + x_lower) / 2, upper.bottom + 18


def _draw_card(gpu: PlacedGpuView, box: Box, colours: Mapping[str, tuple[str, str]], troubles: Sequence[TroubleView]) -> str:
    status = gpu.status
    line, fill = STATE_COLOURS[status.state]
    if status.state == "allocated" and len(status.uses) == 1:
        line, fill = colours[status.uses[0].claim]
    is_sick = is_held_sick(status)
    parts = [
        rect(box, fill=PAPER, radius=10),
        rect(box, fill=fill, stroke=RED if is_sick else line, width=3.5 if is_sick else 2, radius=10),
        text((box.x + 12, box.y + 23), f"GPU {gpu.gpu}", size=15, weight="700"),
        text((box.right - 10, box.y + 22), gpu.pcie_root or "", size=10, fill=DIM, anchor="end"),
        text((box.x + 12, box.y + 39), _name_slot(gpu.device), size=10, fill=DIM),
    ]
    said = list(_say_card(status, troubles))
    parts += [
        text((box.x + 12, box.y + 58 + 15 * number), shorten(words, _NAME), size=11, fill=colour, weight=weight)
        for number, (words, colour, weight) in enumerate(said[:3])
    ]
    parts += _draw_parts(status, box, colours)
    return group(parts, _tip(gpu, troubles))


def _name_slot(device: str) -> str:
    """``0000:1b:00.0`` of ``gpu-0000-1b-00-0``."""
    parts = device.split("-")
    return f"{parts[1]}:{parts[2]}:{parts[3]}.{parts[4]}" if len(parts) == 5 and parts[0] == "gpu" else shorten(device, _NAME)


def _say_card(status: GpuStatusView, troubles: Sequence[TroubleView]) -> Iterator[tuple[str, str, str]]:
    """The lines of a card: words, colour, weight."""
    for each in troubles[:1]:
        kind = each.key.rpartition("/")[2]
        yield f"{kind.upper() if kind in ('xid', 'ecc') else kind} {each.value}".strip(), RED, "700"
    if len(status.uses) == 1:
        use = status.uses[0]
        yield use.claim, INK, "600"
        if use.pods:
            yield f"pod {join_names(use.pods, 1)}", DIM, ""
    elif status.uses:
        yield f"{count(len(status.uses), 'part')}, {count(len({use.claim for use in status.uses}), 'claim')}", INK, "600"
    elif not troubles:
        yield STATE_WORDS[status.state], STATE_COLOURS[status.state][0], "600"


def _draw_parts(status: GpuStatusView, box: Box, colours: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """At the foot of the card what parts of the GPU are whose: MIG devices by memory slice, shares by memory."""
    strip = Box(x=box.x + 10, y=box.bottom - 18, width=box.width - 20, height=10)
    taken = list(_list_spans(status))
    if not taken and not status.memory_slices:
        return
    yield rect(strip, fill=PAPER, stroke="#c5ccd6", radius=3)
    for claim, start, size in taken:
        span = Box(x=strip.x + start * strip.width, y=strip.y, width=max(2.0, size * strip.width - 1), height=strip.height)
        yield rect(span, fill=colours[claim][0], radius=2)
    for number in range(1, status.memory_slices):
        x = strip.x + number * strip.width / status.memory_slices
        yield path(f"M{x:.1f} {strip.y:.1f} V{strip.bottom:.1f}", stroke="#c5ccd6", width=1)


def _list_spans(status: GpuStatusView) -> Iterator[tuple[str, float, float]]:
    """Claim, start and size, as parts of the whole."""
    total, at = _amount(status.memory), 0.0
    for use in status.uses:
        if use.memory_slices and status.memory_slices:
            yield use.claim, use.memory_slices[0] / status.memory_slices, len(use.memory_slices) / status.memory_slices
        elif use.memory is not None and total:
            size = min(_amount(use.memory) / total, 1.0 - at)
            yield use.claim, at, size
            at += size


def _amount(quantity: str) -> float:
    try:
        return float(parse_quantity(quantity))
    except ValueError:
        return 0.0


def _tip(gpu: PlacedGpuView, troubles: Sequence[TroubleView]) -> str:
    said = [f"GPU {gpu.gpu}, {gpu.device}: {STATE_WORDS[gpu.status.state]}"]
    said += [
        f"{use.profile or use.memory or 'whole'}: {use.claim} (pod {join_names(use.pods) or 'none'})" for use in gpu.status.uses
    ]
    return "\n".join([*said, *(each.text for each in troubles)])
