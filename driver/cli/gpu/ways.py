"""Which claims stand in the way of a set of GPUs, on the nodes where the fewest do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nsmallest

from driver.allocator.device_node import DeviceNode
from driver.allocator.tables import positions_of
from driver.api.topology_policy import Scope
from driver.cli.gpu.holders import Holder, Holders, allocator_of, choose_fewest
from driver.cli.gpu.sets import GpuMasks, list_legal_sets
from driver.cli.gpu.views import HolderView, WayView
from driver.controller.objects.life import format_time

MOST_WAYS = 3
_MOST_NODES = 500
"""Nodes on which claims are looked at: those where the fewest GPUs have to come free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node, and what of it may be thought of: ``masks.healthy`` may be fewer than its healthy GPUs."""

    node: DeviceNode
    masks: GpuMasks
    groups: tuple[int, ...] | None = None
    """Sets out of which any GPUs will do, where something else than links makes them."""

    def list_sets(self, size: int, scope: Scope) -> Iterable[int]:
        """What could serve ``size`` GPUs, whoever has them: a set of which any GPUs will do comes once, whole."""
        if self.groups is not None:
            return [each for group in self.groups if (each := group & self.masks.healthy).bit_count() >= size]
        return list_legal_sets(self.node.shape.tables, self.masks.healthy, size, scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    node: DeviceNode
    set: int
    free: int
    holders: tuple[Holder, ...]


def choose_ways(
    candidates: Iterable[Candidate], holders: Holders, size: int, scope: Scope, most: int = MOST_WAYS
) -> tuple[WayView, ...]:
    """For a claim of ``size`` GPUs the nodes where the fewest claims are in its way, at most ``most``."""
    near = nsmallest(_MOST_NODES, candidates, key=lambda each: (_lacking(each, size, scope), each.node.name))
    ways = [way for each in near if (way := _find_way(each, holders, size, scope)) is not None]
    ways.sort(key=lambda way: (len(way.holders), size - way.free, way.node.name))
    return tuple(_view(way, size, scope) for way in ways[:most])


def _lacking(candidate: Candidate, size: int, scope: Scope) -> int:
    """The fewest GPUs that have to come free; all and more where no set will do."""
    masks = candidate.masks
    sets = candidate.list_sets(size, scope)
    return min((size - min(size, (each & masks.free).bit_count()) for each in sets), default=size + 1)


def _find_way(candidate: Candidate, holders: Holders, size: int, scope: Scope) -> _Way | None:
    node, masks = candidate.node, candidate.masks
    held = holders.on(node)
    found: list[_Way] = []
    for each in candidate.list_sets(size, scope):
        free = (each & masks.free).bit_count()
        chosen = choose_fewest(held, each & ~masks.free, size - free)
        if _union(chosen, each & ~masks.free).bit_count() >= size - free:
            found.append(_Way(node=node, set=each, free=free, holders=chosen))
    return min(found, key=lambda way: (len(way.holders), size - way.free, way.set), default=None)


def _union(holders: Iterable[Holder], among: int) -> int:
    union = 0
    for each in holders:
        union |= each.positions & among
    return union


def _view(way: _Way, size: int, scope: Scope) -> WayView:
    return WayView(
        node=way.node.name,
        scope=scope.value,
        size=size,
        gpus=tuple(positions_of(way.set)),
        free=way.free,
        held_by=tuple(view_holder(each, way.set) for each in way.holders),
    )


def view_holder(holder: Holder, among: int) -> HolderView:
    """The claim, with how many GPUs of a set it has."""
    return HolderView(
        claim=holder.name,
        pods=holder.pods,
        gpus=(holder.positions & among).bit_count(),
        since=format_time(holder.since_s),
        allocator=allocator_of(holder.claim),
    )
