"""What is short on a node for a request that does not fit there, in numbers: of counters, and of GPUs that claims share.

To decide, nobody needs it. ``shortage`` finds the names, of the one GPU that lacks least, when somebody is to be told (B71).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from driver.allocator.device_node import Shape, Taken
from driver.allocator.draws import remaining_counters
from driver.allocator.partitions import PARTS
from driver.allocator.statics import Statics


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """A request, as one node sees it."""

    mask: int
    """The devices that would do, taken or not."""
    count: int
    """0 is all of them."""
    flat: int
    """Its number among all alternatives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """One capacity of a GPU that claims share."""

    name: str
    free: Fraction
    total: Fraction
    need: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """The device that lacks least."""

    missing: int
    """In thousandths of what there is, over all counters or capacities together."""
    at: int
    among: int = 0
    """All devices on the same counters that would have done."""
    left: int = 0
    """What is left of the counters."""
    beside: int = 0
    """Devices on the same counters that are needed besides: what is left is what those leave."""
    amounts: tuple[Amount, ...] = ()
    """What is short of a GPU that claims share."""


def find_lack(statics: Statics, taken: Taken, wants: Sequence[Want]) -> Lack | None:
    """What is short for the first of these that cannot be had beside those before it.

    None where it is no counter and no capacity: all devices are somebody's, or a constraint is in the way.
    """
    if not statics.shape.groups and not statics.shape.shared:
        return None
    in_use = sum(1 << at for at in taken.shares)
    lefts, blocked = remaining_counters(statics.shape, taken)
    given = _Given(shape=statics.shape, lefts=list(lefts), gone=taken.mask | blocked)
    for want in wants:
        full = list(_list_full_shares(statics, taken, want))
        mask = want.mask & ~sum(1 << lack.at for lack in full)
        if not given.take(mask, in_use, want.count or want.mask.bit_count()):
            lacks = [*full, *given.list_lacks(mask & ~in_use)]
            return min(lacks, key=lambda each: (each.beside > 0, each.missing, each.at), default=None)
    return None


def find_full_shares(statics: Statics, taken: Taken, flat: int) -> int:
    """The shared devices of which less is left than this alternative asks for."""
    return sum(1 << lack.at for lack in _list_full_shares(statics, taken, Want(mask=-1, count=0, flat=flat)))


def _list_full_shares(statics: Statics, taken: Taken, want: Want) -> Iterator[Lack]:
    totals = dict(statics.totals)
    for at, drawn in statics.draws[want.flat]:
        if at in taken.shares and want.mask >> at & 1:
            held, there = taken.shares[at], dict(totals[at])
            amounts = (Amount(name=name, free=there[name] - held.get(name, 0), total=there[name], need=n) for name, n in drawn)
            short = tuple(each for each in amounts if each.need > each.free)
            if short:
                yield Lack(
                    missing=sum(int((each.need - each.free) * PARTS / each.total) for each in short), at=at, amounts=short
                )


@dataclass(slots=True, kw_only=True)
class _Given:
    """What requests were given, one after the other, small devices first."""

    shape: Shape
    lefts: list[int]
    gone: int
    beside: dict[int, int] = field(default_factory=dict)
    """How many devices of each group."""

    def take(self, mask: int, in_use: int, count: int) -> bool:
        """Gives so many of these devices; False where they do not suffice."""
        open_ = mask & ~self.gone
        plain = open_ & in_use | open_ & ~sum(group.mask for group in self.shape.groups)
        count -= plain.bit_count()
        for number, group in enumerate(self.shape.groups):
            for device in group.tables.in_order(group.local(open_ & ~plain)):
                rest = group.tables.pay(self.lefts[number], device)
                if count > 0 and rest is not None:
                    self.lefts[number], count = rest, count - 1
                    self.beside[number] = self.beside.get(number, 0) + 1
                    self.gone |= 1 << group.position_of(device)
        return count <= 0

    def list_lacks(self, mask: int) -> Iterator[Lack]:
        """For each group what the nearest of these devices lacks."""
        for number, group in enumerate(self.shape.groups):
            among = mask & group.mask & ~self.gone
            nearest = group.tables.nearest(self.lefts[number], group.local(among))
            if nearest is not None:
                device, missing = nearest
                yield Lack(
                    missing=missing,
                    at=group.position_of(device),
                    among=among,
                    left=self.lefts[number],
                    beside=self.beside.get(number, 0),
                )
