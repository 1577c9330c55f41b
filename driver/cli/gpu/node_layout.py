"""Where the cards of a node's GPUs stand in its picture, and the frames around them. Pure geometry, in pixels.

NUMA nodes are bands with islands framed within; where an island reaches over NUMA nodes it is the outer frame.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from driver.cli.gpu.svg import Box
from driver.cli.gpu.topology_views import NodeTopologyView, PlacedGpuView

CARD_WIDTH, CARD_HEIGHT = 158.0, 104.0
LEFT, TOP = 24.0, 92.0
_PAD, _LABEL, _ROW_GAP = 28.0, 24.0, 30.0
_FEW = 8
"""GPUs that stand four in a row; more stand eight in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A box around GPUs."""

    box: Box
    label: str
    is_island: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The picture's geometry."""

    cards: dict[int, Box]
    """By position."""
    rows: tuple[tuple[int, ...], ...]
    """The GPUs from left to right, from top to bottom."""
    frames: tuple[Frame, ...]
    """The outer ones first."""
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """GPUs that stand together, and what is written over them; no words where there is no frame."""

    label: str
    is_island: bool
    members: tuple[int, ...]


class Room(enum.Enum):
    """What is kept free for links: between cards, and above them."""

    NONE = (18.0, 34.0)
    PAIRS = (56.0, 10.0)
    MESH = (56.0, 84.0)


def build_layout(node: NodeTopologyView, room: Room) -> Layout:
    """Where everything stands."""
    return _Painter(node, room).run()


class _Painter:
    def __init__(self, node: NodeTopologyView, room: Room) -> None:
        self._node = node
        self._gap, self._arcs = room.value
        self._per_row = 4 if len(node.gpus) <= _FEW else 8
        self._cards: dict[int, Box] = {}
        self._rows: list[tuple[int, ...]] = []
        self._frames: list[Frame] = []
        self._widest = 0.0

    def run(self) -> Layout:
        y = TOP
        for label, is_island, blocks in _build_outer(self._node):
            y = self._place_outer(label, is_island, blocks, y) + 20.0
        width = max(self._widest + LEFT, 640.0)
        return Layout(cards=self._cards, rows=tuple(self._rows), frames=tuple(self._frames), width=width, height=y + 44.0)

    def _place_outer(self, label: str, is_island: bool, blocks: Sequence[_Block], top: float) -> float:
        """The lower edge."""
        at = len(self._frames)
        y, right = top + _LABEL, LEFT
        for row in self._split(blocks):
            y, end = self._place_row(row, y)
            right = max(right, end)
        box = Box(x=LEFT, y=top, width=right + 24 - LEFT, height=y - top)
        self._frames.insert(at, Frame(box=box, label=label, is_island=is_island))
        self._widest = max(self._widest, box.right)
        return box.bottom

    def _split(self, blocks: Sequence[_Block]) -> list[list[_Block]]:
        """Blocks in rows; one that is wider than a row is cut."""
        rows: list[list[_Block]] = [[]]
        used = 0
        for block in blocks:
            for first in range(0, len(block.members), self._per_row):
                members = block.members[first : first + self._per_row]
                if used + len(members) > self._per_row:
                    rows.append([])
                    used = 0
                rows[-1].append(_Block(label=block.label if not first else "", is_island=block.is_island, members=members))
                used += len(members)
        return [row for row in rows if row]

    def _place_row(self, row: Sequence[_Block], top: float) -> tuple[float, float]:
        """The lower and the right edge."""
        has_frames = any(block.label for block in row)
        x, y = LEFT + _PAD, top + self._arcs + (_LABEL if has_frames else 0)
        bottom = y + CARD_HEIGHT + (16 if has_frames else 0)
        placed: list[int] = []
        for block in row:
            first = x
            for member in block.members:
                self._cards[member] = Box(x=x, y=y, width=CARD_WIDTH, height=CARD_HEIGHT)
                x += CARD_WIDTH + self._gap
            placed += block.members
            if block.label:
                box = Box(x=first - 10, y=top + 4, width=x - self._gap - first + 20, height=bottom - top - 4)
                self._frames.append(Frame(box=box, label=block.label, is_island=block.is_island))
                x += 14
        self._rows.append(tuple(placed))
        return bottom + _ROW_GAP, x - self._gap


def _build_outer(node: NodeTopologyView) -> list[tuple[str, bool, list[_Block]]]:
    """The outer frames with their blocks."""
    numa_of = {each.gpu: each.numa_node for each in node.gpus}
    if all(len({numa_of[member] for member in island}) == 1 for island in node.islands):
        return [(name_numa(numa), False, _build_islands(node, members)) for numa, members in _by_numa(node.gpus)]
    alone = [each for each in node.gpus if not any(each.gpu in island for island in node.islands)]
    outer = [
        (_name_island(island), True, _build_numas([each for each in node.gpus if each.gpu in island]))
        for island in node.islands
    ]
    return outer + ([("no NVLink", False, _build_numas(alone))] if alone else [])


def _build_islands(node: NodeTopologyView, gpus: Sequence[PlacedGpuView]) -> list[_Block]:
    here = {each.gpu for each in gpus}
    blocks = [
        _Block(label=_name_island(island), is_island=True, members=island) for island in node.islands if here.issuperset(island)
    ]
    alone = tuple(sorted(here - {member for block in blocks for member in block.members}))
    return blocks + ([_Block(label="", is_island=False, members=alone)] if alone else [])


def _build_numas(gpus: Sequence[PlacedGpuView]) -> list[_Block]:
    return [
        _Block(label=name_numa(numa), is_island=False, members=tuple(each.gpu for each in members))
        for numa, members in _by_numa(gpus)
    ]


def _by_numa(gpus: Sequence[PlacedGpuView]) -> list[tuple[int | None, list[PlacedGpuView]]]:
    members: dict[int | None, list[PlacedGpuView]] = {}
    for each in gpus:
        members.setdefault(each.numa_node, []).append(each)
    return list(members.items())


def _name_island(island: Sequence[int]) -> str:
    return f"NVLink island of {len(island)}"


def name_numa(numa: int | None) -> str:
    """``NUMA node 0``."""
    return "NUMA node not told" if numa is None else f"NUMA node {numa}"
