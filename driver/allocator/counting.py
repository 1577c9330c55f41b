"""What counting alone says of a problem on a node: what would make a search try everything in vain."""

from __future__ import annotations

from collections.abc import Sequence

from driver.allocator.choices import split
from driver.allocator.partitions import Lefts
from driver.allocator.problem import Constraint
from driver.allocator.slots import Slot
from driver.allocator.statics import Statics


def has_no_room(slots: Sequence[Slot], statics: Statics, lefts: Lefts, taken: int) -> bool:
    """True where the devices that some requests could have are fewer than they ask for, or cannot be paid for together."""
    wants = []
    for slot in slots:
        asks = [(flat, each) for flat, each in slot.alternatives if not each.is_admin]
        if len(asks) == len(slot.alternatives):
            mask = 0
            for flat, _ in asks:
                mask |= statics.eligible[flat] & ~taken
            wants.append((mask, min(each.count or 1 for _, each in asks)))
    for mask in {mask for mask, _ in wants if not mask & statics.shape.shared}:
        if sum(need for other, need in wants if not other & ~mask) > _most(statics, lefts, mask):
            return True
    return False


def _most(statics: Statics, lefts: Lefts, mask: int) -> int:
    most = 0
    for group, left in zip(statics.shape.groups, lefts, strict=True):
        most += group.tables.most(left, group.local(mask))
        mask &= ~group.mask
    return most + mask.bit_count()


def breaks_constraints(
    slots: Sequence[Slot], constraints: Sequence[tuple[int, Constraint]], statics: Statics, taken: int
) -> bool:
    """True where counting alone says that no placement keeps to the constraints.

    ``constraints`` are of all claims, each with its claim's number, in the order of the statics' patterns.
    """
    for (owner, constraint), pattern in zip(constraints, statics.patterns, strict=True):
        need = reachable = 0
        for slot in slots:
            if slot.claim != owner or not all(constraint.covers(each) for _, each in slot.alternatives):
                continue
            need += min(each.count or 1 for _, each in slot.alternatives)
            for flat, each in slot.alternatives:
                reachable |= statics.eligible[flat] & ~(0 if each.is_admin else taken)
        if not constraint.is_distinct and reachable & statics.shape.shared:
            continue  # one device may serve several requests
        groups = split([reachable], pattern)
        if need > (len(groups) if constraint.is_distinct else max((group.bit_count() for group in groups), default=0)):
            return True
    return False
