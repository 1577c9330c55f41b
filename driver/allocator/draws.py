"""What devices draw from a node's counters, and from the capacities of devices that are shared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from driver.allocator.device_node import Taken
from driver.allocator.slots import Pick
from driver.allocator.statics import Statics
from driver.allocator.tables import positions_of

Shares = Mapping[int, Mapping[str, Fraction]]
"""For each shared device that is in use what is drawn from its capacities."""
Drawn = tuple[tuple[Fraction, ...], Shares]
"""What is left of each counter, and the shares."""


def remaining_counters(statics: Statics, taken: Taken) -> tuple[Fraction, ...]:
    """What is left of each counter; below zero where more is taken than there is."""
    shape = statics.shape
    counters = list(shape.counters)
    if counters:
        shared = sum(1 << at for at in taken.shares)
        for at in positions_of(taken.mask | shared):
            for counter, amount in shape.draws[at]:
                counters[counter] -= amount
    return tuple(counters)


def draw_devices(statics: Statics, pick: Pick, before: Drawn) -> Drawn | None:
    """Counters and shares with the pick; None where one is overdrawn.

    Admin access draws nothing on counters, but for the first share of a shared device: later shares go by it.
    """
    shape = statics.shape
    counters, shares = list(before[0]), before[1]
    for at in positions_of(pick.mask):
        is_shared = shape.shared >> at & 1
        if at not in shares if is_shared else not pick.alternative.is_admin:
            for counter, amount in shape.draws[at]:
                counters[counter] -= amount
                if counters[counter] < 0:
                    return None
        if is_shared:
            total = _draw_share(statics, pick.flat, at, shares)
            if total is None:
                return None
            shares = {**shares, at: total}
    return tuple(counters), shares


def order_by_draw(statics: Statics) -> tuple[int, ...]:
    """All positions, what draws least on any one counter first: small parts before the whole that they are parts of."""
    shape = statics.shape

    def weight(at: int) -> Fraction:
        return max((amount / shape.counters[c] for c, amount in shape.draws[at] if shape.counters[c]), default=Fraction(0))

    return tuple(sorted(range(shape.size), key=lambda at: (weight(at), at)))


def affordable_subsets(statics: Statics, positions: Sequence[int], size: int, counters: Sequence[Fraction]) -> Iterator[int]:
    """Every set of ``size`` out of ``positions`` that overdraws no counter, the first positions first.

    What is not affordable is not tried with anything more. Shared devices are left to ``draw_devices``: one that is in use
    draws nothing more.
    """
    if size == 0:
        yield 0
        return
    for number, at in enumerate(positions[: len(positions) - size + 1], 1):
        left = counters if statics.shape.shared >> at & 1 else _pay(counters, statics.shape.draws[at])
        if left is not None:
            for rest in affordable_subsets(statics, positions[number:], size - 1, left):
                yield 1 << at | rest


def _pay(counters: Sequence[Fraction], draws: Sequence[tuple[int, Fraction]]) -> Sequence[Fraction] | None:
    if any(counters[counter] < amount for counter, amount in draws):
        return None
    left = list(counters)
    for counter, amount in draws:
        left[counter] -= amount
    return left


def _draw_share(statics: Statics, flat: int, at: int, shares: Shares) -> dict[str, Fraction] | None:
    drawn = dict(next(amounts for position, amounts in statics.draws[flat] if position == at))
    totals = dict(next(amounts for position, amounts in statics.totals if position == at))
    held = shares.get(at, {})
    together = {name: held.get(name, Fraction(0)) + amount for name, amount in drawn.items()}
    return together if all(amount <= totals[name] for name, amount in together.items()) else None
