"""What devices draw from a node's counters, and from the capacities of devices that are shared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from driver.allocator.device_node import Shape, Taken
from driver.allocator.partitions import PARTS, Lefts
from driver.allocator.slots import Pick
from driver.allocator.statics import Statics
from driver.allocator.tables import positions_of

Shares = Mapping[int, Mapping[str, Fraction]]
"""For each shared device that is in use what is drawn from its capacities."""
Drawn = tuple[Lefts, Shares]


def remaining_counters(shape: Shape, taken: Taken) -> tuple[Lefts, int]:
    """What is left of the counters, and the devices that nobody may have: those of a GPU of which more is taken than it has."""
    shared = sum(1 << at for at in taken.shares)
    lefts, blocked = [], 0
    for group in shape.groups:
        left = group.tables.remaining(group.local(taken.mask | shared))
        lefts.append(left or 0)
        blocked |= group.mask if left is None else 0
    return tuple(lefts), blocked & ~shared


def free_gpus(shape: Shape, taken: int, lefts: Lefts) -> int:
    """The whole GPUs that an ordinary claim could have: healthy, not taken, and not cut into partitions."""
    free = shape.healthy & ~taken
    for group, left in zip(shape.groups, lefts, strict=True):
        if free & group.whole_mask:
            free &= ~group.whole_mask | group.spread(group.tables.affordable(left))
    return free


def closed_devices(shape: Shape, taken: Taken) -> int:
    """The devices that an ordinary claim cannot have, each for itself: taken, or what they draw on is used up."""
    lefts, blocked = remaining_counters(shape, taken)
    closed = taken.mask | blocked
    for group, left in zip(shape.groups, lefts, strict=True):
        closed |= group.mask & ~group.spread(group.tables.affordable(left)) & ~sum(1 << at for at in taken.shares)
    return closed


def count_together(shape: Shape, taken: Taken, mask: int) -> int:
    """How many of these devices, which are open, can be had together; small ones are counted first."""
    count = 0
    for group, left in zip(shape.groups, remaining_counters(shape, taken)[0], strict=True):
        wanted = group.tables.in_order(group.local(mask))
        count += len(group.tables.take_in_order(wanted, left, 0)) if not group.mask & shape.shared else len(wanted)
        mask &= ~group.mask
    return count + mask.bit_count()


def draw_devices(statics: Statics, pick: Pick, before: Drawn) -> Drawn | None:
    """Counters and shares with the pick; None where one is overdrawn.

    Admin access draws nothing on counters, but for the first share of a shared device: later shares go by it.
    """
    shape = statics.shape
    lefts, shares = before
    for at in positions_of(pick.mask):
        is_shared = shape.shared >> at & 1
        if at not in shares if is_shared else not pick.alternative.is_admin:
            paid = pay(shape, lefts, at)
            if paid is None:
                return None
            lefts = paid
        if is_shared:
            total = _draw_share(statics, pick.flat, at, shares)
            if total is None:
                return None
            shares = {**shares, at: total}
    return lefts, shares


def pay(shape: Shape, lefts: Lefts, at: int) -> Lefts | None:
    """What is left with the device paid for; None where that overdraws a counter."""
    number = shape.group_of[at]
    if number < 0:
        return lefts
    group = shape.groups[number]
    left = group.tables.pay(lefts[number], group.local_of(at))
    return None if left is None else (*lefts[:number], left, *lefts[number + 1 :])


def affordable_subsets(shape: Shape, positions: Sequence[int], size: int, lefts: Lefts) -> Iterator[int]:
    """Every set of ``size`` out of ``positions`` that overdraws no counter, the first positions first, as kube-scheduler tries.

    Shared devices are left to ``draw_devices``: one that is in use draws nothing more.
    """
    if size == 0:
        yield 0
        return
    for number, at in enumerate(positions[: len(positions) - size + 1], 1):
        left = lefts if shape.shared >> at & 1 else pay(shape, lefts, at)
        if left is not None:
            for rest in affordable_subsets(shape, positions[number:], size - 1, left):
                yield 1 << at | rest


def shared_rest(statics: Statics, shares: Shares, mask: int) -> int:
    """What is left of the shared devices in a set, in thousandths of their capacities: the less, the fuller they are."""
    rest = 0
    for at, totals in statics.totals:
        if mask >> at & 1:
            held = shares.get(at, {})
            parts = [int((total - held.get(name, 0)) * PARTS / total) for name, total in totals if total]
            rest += sum(parts) // len(parts) if parts else 0
    return rest


def _draw_share(statics: Statics, flat: int, at: int, shares: Shares) -> dict[str, Fraction] | None:
    drawn = dict(next(amounts for position, amounts in statics.draws[flat] if position == at))
    totals = dict(next(amounts for position, amounts in statics.totals if position == at))
    held = shares.get(at, {})
    together = {name: held.get(name, Fraction(0)) + amount for name, amount in drawn.items()}
    return together if all(amount <= totals[name] for name, amount in together.items()) else None
