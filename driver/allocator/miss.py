"""Why nothing fits, in numbers: the nearest miss over all nodes that the pod may go to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from driver.allocator.draws import closed_devices, count_together
from driver.allocator.fleet import BucketKey, Fleet, View
from driver.allocator.lack import Want, find_full_shares, find_lack
from driver.allocator.scopes import Asked, LargestSets, find_largest
from driver.allocator.search import NotFound
from driver.allocator.shortage import Shortage, build_shortage
from driver.allocator.statics import Statics
from driver.api.resource_v1 import ALLOCATION_RESULTS_MAX

_MOST_NAMED = 3
_MOST_LOOKED = 64
"""Kinds of nodes with a largest set, among which the one is sought that lacks least."""
Buckets = Sequence[tuple[BucketKey, Sequence[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """Nothing fits now. ``text`` says it all in one line."""

    nodes: int
    """Nodes that the pod may go to."""
    request: str
    need: int
    """Devices that the request asks for; 0 where it asks for all."""
    scope: str
    """What they must have in common: ``one NVLink island``, ``one node``."""
    free: int
    """Devices that match the request and could be had, over all nodes; of MIG placements one often excludes another."""
    taken: int
    """Devices that match the request and are somebody's, or tainted."""
    largest: int
    """The most of them that have the scope in common."""
    where: tuple[str, ...]
    """Where the largest sets are, at most three."""
    is_whole: bool = True
    """It asks for whole GPUs, not for parts of them."""
    faults: tuple[str, ...] = ()
    """Selectors that failed, each with the first device that it failed on."""
    is_together: bool = False
    """Each request would fit alone, all of them fit nowhere."""
    undecided: int = 0
    """Nodes on which the search ended before it could tell."""
    shortage: Shortage | None = None
    """Where counters are short, or a GPU that claims share is too full: the GPU that lacks least, near the largest sets."""

    @property
    def text(self) -> str:
        """``5 nodes, 20 free GPUs; need 4 on one NVLink island; largest free set is 2 (node-a island 0, ...)``."""
        parts = [f"{_count(self.nodes, 'node')}, {_count(self.free, 'free GPU' if self.is_whole else 'free MIG placement')}"]
        if self.free + self.taken == 0:
            parts.append(f"no device of theirs matches request {self.request}")
        else:
            parts.append(f"need {self.need or 'all'} on {self.scope}")
            named = ", ".join(self.where) + (", ..." if len(self.where) == _MOST_NAMED else "")
            parts.append(f"largest free set is {self.largest}" + (f" ({named})" if named and self.largest else ""))
        if not self.need and self.largest > ALLOCATION_RESULTS_MAX:
            parts.append(f"a claim can have {ALLOCATION_RESULTS_MAX} at most")
        elif self.is_together:
            parts.append("each request fits alone, but no node has room for all of them together")
        if self.shortage is not None:
            parts.append(self.shortage.text)
        if self.undecided:
            parts.append(f"on {_count(self.undecided, 'node')} the search ended before it could tell")
        return "; ".join([*parts, *(f"selector failed on {fault}" for fault in self.faults)])


class _Near(NamedTuple):
    """The nodes of a bucket, and the largest sets there."""

    key: BucketKey
    names: Sequence[str]
    sets: LargestSets


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sum:
    """One request over all nodes."""

    asked: Asked
    free: int
    taken: int
    is_whole: bool
    """It is for whole GPUs."""
    near: tuple[_Near, ...]
    """Where the largest sets are."""

    @property
    def count(self) -> int:
        return self.asked.alternative.count

    @property
    def largest(self) -> int:
        return self.near[0].sets.size if self.near else 0

    @property
    def fits(self) -> bool:
        return self.largest >= max(1, self.count)

    @property
    def where(self) -> tuple[str, ...]:
        if not self.largest:
            return ()
        named = (
            f"{name} {label}".strip() for each in self.near for name in each.names[:_MOST_NAMED] for label in each.sets.labels
        )
        return tuple(sorted(named)[:_MOST_NAMED])


def build_miss(fleet: Fleet, view: View, buckets: Buckets) -> Miss:
    """The nearest miss: of the requests that fit nowhere the first, else the largest."""
    sums = [_sum_up(fleet, view, buckets, asked) for asked in _hardest(view)]
    failing = [each for each in sums if not each.fits]
    shown = failing[0] if failing else max(sums, key=lambda each: each.count)
    expressions = {expression for each in view.problem.alternatives() for expression in each.selectors}
    faults = {
        f"{name}/{fault}"
        for _, names in buckets
        for name in names
        for expression, fault in fleet.nodes[name].faults.items()
        if expression in expressions
    }
    return Miss(
        nodes=sum(len(names) for _, names in buckets),
        request=shown.asked.alternative.name,
        need=shown.count,
        scope=f"one {shown.asked.scope[0]}",
        free=shown.free,
        taken=shown.taken,
        largest=shown.largest,
        where=shown.where,
        is_whole=shown.is_whole or shown.free + shown.taken == 0,
        faults=tuple(sorted(faults)[:_MOST_NAMED]),
        is_together=not failing,
        undecided=sum(len(names) for key, names in buckets if not _is_proved(view, key, names)),
        shortage=_find_shortage(fleet, view, shown, [] if failing else sums),
    )


def _find_shortage(fleet: Fleet, view: View, shown: _Sum, together: Sequence[_Sum]) -> Shortage | None:
    """What is short where the nearest miss is; ``together`` are all requests where only all of them do not fit."""
    found = []
    for key, names, sets in shown.near[:_MOST_LOOKED]:
        statics, taken = view.index.statics(key), fleet.taken(names[0])
        wants = [_want(statics, each.asked, -1) for each in together]
        lacks = [find_lack(statics, taken, wants or [_want(statics, shown.asked, mask)]) for mask in sets.around]
        found += [(lack.missing, names[0], lack) for lack in lacks if lack is not None]
    if not found:
        return None
    _, name, lack = min(found, key=itemgetter(0, 1))
    return build_shortage(fleet.nodes[name], lack)


def _want(statics: Statics, asked: Asked, mask: int) -> Want:
    eligible = 0 if asked.alternative.is_admin else statics.eligible[asked.flat]
    return Want(mask=eligible & mask, count=asked.alternative.count, flat=asked.flat)


def _hardest(view: View) -> Iterator[Asked]:
    """For each request the alternative that is easiest to have, by count."""
    flat = first = 0
    for claim in view.problem.claims:
        for request in claim.requests:
            numbered = list(enumerate(request.alternatives, flat))
            flat += len(numbered)
            at, alternative = min(numbered, key=lambda each: (each[1].count, -each[0]))
            yield Asked(claim=claim, alternative=alternative, flat=at, first=first)
        first += len(claim.constraints)


def _sum_up(fleet: Fleet, view: View, buckets: Buckets, asked: Asked) -> _Sum:
    flat, is_admin = asked.flat, asked.alternative.is_admin
    free = taken = whole = 0
    largest: list[_Near] = []
    for key, names in buckets:
        statics, held = view.index.statics(key), fleet.taken(names[0])
        closed = 0 if is_admin else closed_devices(statics.shape, held) | find_full_shares(statics, held, flat)
        open_ = statics.eligible[flat] & ~closed
        matching = statics.eligible[flat] | statics.matching[flat]
        free += open_.bit_count() * len(names)
        taken += (matching & ~open_).bit_count() * len(names)
        whole += (matching & statics.shape.tables.full).bit_count()
        size_of = int.bit_count if is_admin else partial(count_together, statics.shape, held)
        near = _Near(key, names, find_largest(statics, asked, open_, size_of))
        if not largest or near.sets.size > largest[0].sets.size:
            largest = []
        if not largest or near.sets.size == largest[0].sets.size:
            largest.append(near)
    return _Sum(asked=asked, free=free, taken=taken, is_whole=whole > 0, near=tuple(largest))


def _is_proved(view: View, key: BucketKey, names: Sequence[str]) -> bool:
    answer = view.answer(key, names[0])
    return not isinstance(answer, NotFound) or answer.is_proved


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
