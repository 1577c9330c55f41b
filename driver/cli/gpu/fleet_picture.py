"""The fleet's occupancy as a picture: a tile for each node, a square for each GPU, islands apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from driver.cli.gpu.node_status_tables import is_held_sick
from driver.cli.gpu.status_views import GpuStatusView, NodeStatusView, StatusView
from driver.cli.gpu.svg import (
    BAND,
    DIM,
    INK,
    RED,
    STATE_COLOURS,
    STATE_WORDS,
    Box,
    build_document,
    build_legend,
    group,
    rect,
    shorten,
    text,
)
from driver.cli.gpu.tables import WHOSE, short_product
from driver.cli.gpu.words import count

_WIDTH, _LEFT, _SQUARE, _STEP, _APART = 1240.0, 24.0, 14.0, 17.0, 6.0
_A_ROW = 16
_CHARACTER = 7.4
"""The width of a letter of a node's name, as broad as they come."""
_WIDEST = 230.0
"""How wide a tile may be for its name's sake."""
_SOLID = {
    "allocated": "#4c78a8",
    "parts": "#8e5ea2",
    "free": "#bfe5c8",
    "unfit": "url(#sick)",
    "closed": "#cfd5dc",
    "unknown": "#eef0f3",
}


def draw_fleet(view: StatusView) -> str:
    """An SVG document."""
    counts = view.counts
    gpus = [gpu for node in view.nodes for gpu in node.gpus]
    said = f"{count(counts.gpus, 'GPU')} on {count(len(view.nodes), 'node')}: {counts.allocated} held, {counts.free} free"
    said += f", {counts.unhealthy} unhealthy" if counts.unhealthy else ""
    parts = [text((_LEFT, 38), "GPUs of the cluster", size=22, weight="700"), text((_LEFT, 62), said, size=14, fill=DIM)]
    parts += build_legend((_LEFT, 90), {gpu.state for gpu in gpus}, _SOLID, is_any_sick=any(is_held_sick(gpu) for gpu in gpus))
    y = 112.0
    for (allocator, product), found in groupby(view.nodes, key=lambda each: (each.allocator, each.product)):
        nodes = list(found)
        parts += _head(allocator, product, nodes, y)
        drawn, y = _draw_tiles(nodes, y + 40)
        parts += drawn
    return build_document(parts, _WIDTH, y + 12, said)


def _head(allocator: str, product: str, nodes: Sequence[NodeStatusView], y: float) -> list[str]:
    gpus, held = sum(each.counts.gpus for each in nodes), sum(each.counts.allocated for each in nodes)
    bar = Box(x=_LEFT, y=y + 30, width=_WIDTH - 2 * _LEFT, height=4)
    used = Box(x=bar.x, y=bar.y, width=bar.width * held / max(1, gpus), height=4)
    facts = f"{WHOSE[allocator]}; {count(len(nodes), 'node')}, {held} of {count(gpus, 'GPU')} held"
    return [
        text((_LEFT, y + 22), short_product(product), size=16, weight="700"),
        text((_WIDTH - _LEFT, y + 22), facts, size=12, fill=DIM, anchor="end"),
        rect(bar, fill="#e3e7ec", radius=2),
        rect(used, fill=STATE_COLOURS["allocated"][0], radius=2),
    ]


def _draw_tiles(nodes: Sequence[NodeStatusView], top: float) -> tuple[list[str], float]:
    """The tiles of one product, and where the next thing begins."""
    rows = max((len(each.gpus) - 1) // _A_ROW + 1 for each in nodes)
    names = max(len(each.node) for each in nodes) * _CHARACTER + 16
    width = max(118.0, min(names, _WIDEST), max(_measure(each.gpus) for each in nodes) + 16)
    height = 26 + rows * _STEP + 6
    columns = max(1, int((_WIDTH - 2 * _LEFT + 8) // (width + 8)))
    parts = []
    for number, node in enumerate(nodes):
        x = _LEFT + number % columns * (width + 8)
        y = top + number // columns * (height + 8)
        parts.append(_draw_tile(node, Box(x=x, y=y, width=width, height=height)))
    return parts, top + ((len(nodes) - 1) // columns + 1) * (height + 8) + 8


def _draw_tile(node: NodeStatusView, box: Box) -> str:
    marks = " (cordoned)" * node.is_cordoned + " (not ready)" * (not node.is_ready)
    is_marked = bool(marks)
    most = int((box.width - 16) / _CHARACTER)
    parts = [
        rect(box, fill=BAND, stroke="#d97706" if is_marked else "#d5dae1", radius=6, dash="4 3" if is_marked else ""),
        text((box.x + 8, box.y + 16), shorten(node.node, most), size=11, fill=DIM if is_marked else INK, weight="600"),
    ]
    for gpu, x, y in _place(node.gpus):
        square = Box(x=box.x + 8 + x, y=box.y + 24 + y, width=_SQUARE, height=_SQUARE)
        is_sick = is_held_sick(gpu) or gpu.state == "unfit"
        line = RED if is_sick else STATE_COLOURS[gpu.state][0]
        who = ", ".join(dict.fromkeys(use.claim for use in gpu.uses)) or STATE_WORDS[gpu.state]
        drawn = rect(square, fill=_SOLID[gpu.state], stroke=line, width=2.5 if is_sick else 1, radius=3)
        parts.append(group([drawn], f"GPU {gpu.device if gpu.gpu is None else gpu.gpu}: {who}"))
    return group(parts, f"{node.node}{marks}: {node.counts.allocated} of {count(node.counts.gpus, 'GPU')} held")


def _place(gpus: Sequence[GpuStatusView]) -> Iterator[tuple[GpuStatusView, float, float]]:
    """Each GPU with its place in the tile: sixteen in a row, islands of several GPUs apart."""
    sizes: dict[int | None, int] = {}
    for each in gpus:
        sizes[each.island] = sizes.get(each.island, 0) + 1
    shift = 0.0
    for at, each in enumerate(gpus):
        before = gpus[at - 1] if at % _A_ROW else None
        if before is None:
            shift = 0.0
        elif before.island != each.island and max(sizes[before.island], sizes[each.island]) > 1:
            shift += _APART
        yield each, at % _A_ROW * _STEP + shift, at // _A_ROW * _STEP


def _measure(gpus: Sequence[GpuStatusView]) -> float:
    return max((x + _SQUARE for _, x, _ in _place(gpus)), default=0.0)
