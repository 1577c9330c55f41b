"""Rows of calls that belong together, in every order by turns.

A synced write takes along what was written before it: who comes after an unprepare finds a clean journal, who comes after a
prepare a full one. So no call keeps its place.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from hack.bench.calls import Step
from hack.bench.stage import Stage

Blocks = Sequence[Mapping[str, Step]]
"""Named calls; those of one block keep their order."""


def measure_rows(stage: Stage, rows: Iterable[Blocks]) -> dict[str, list[float]]:
    """The time of each call in ms, by its name, a value a row; the first row is warming up and is left out."""
    times: dict[str, list[float]] = {}
    for number, blocks in enumerate(rows):
        ordered = [name_and_step for block in order_blocks(blocks, number) for name_and_step in block.items()]
        took = stage.in_a_row([step for _, step in ordered])
        if number > 0:
            for (name, _), each in zip(ordered, took, strict=True):
                times.setdefault(name, []).append(each.ms)
    return times


def order_blocks(blocks: Blocks, number: int) -> Blocks:
    """The blocks of row ``number``: all orders come by turns."""
    orders = list(itertools.permutations(blocks))
    return orders[number % len(orders)]
