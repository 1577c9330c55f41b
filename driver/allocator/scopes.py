"""What a request's devices must have in common: in words, and which sets of a node's devices have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from driver.allocator.choices import build_classes, split, subsets
from driver.allocator.objective import Objective
from driver.allocator.problem import Alternative, Claim, Constraint
from driver.allocator.statics import Statics
from driver.allocator.tables import LinkTables, positions_of
from driver.api.topology_policy import Mode, Scope

_LABELS = {
    "nvlinkIsland": ("NVLink island", "island"),
    "nvlinkQuad": ("NVLink quad", "quad"),
    "nvlinkPair": ("NVLink pair", "pair"),
    "nvlinkDomain": ("NVLink domain", "domain"),
    "numaNode": ("NUMA node", "NUMA node"),
    "pcieRoot": ("PCIe root", "root"),
}
_SCOPES = {Scope.NVLINK: "nvlinkIsland", Scope.NUMA: "numaNode", Scope.PCIE: "pcieRoot"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One alternative of a claim."""

    claim: Claim
    alternative: Alternative
    flat: int
    """Its number among all alternatives."""
    first: int
    """The number of the claim's first constraint among all constraints."""

    @property
    def scope(self) -> tuple[str, str]:
        """What the devices must have in common: as a phrase, and as a label before a number."""
        _, constraint = self.match
        if constraint is not None:
            name = constraint.attribute.rpartition("/")[2]
            return _LABELS.get(name, (f"value of {name}", name))
        policy = self.claim.policy
        return _LABELS[_SCOPES[policy.scope]] if policy.mode is Mode.REQUIRED and policy.scope in _SCOPES else ("node", "")

    @property
    def match(self) -> tuple[int, Constraint | None]:
        """The first constraint that wants equal values, with its number; None where there is none."""
        return next(((number, each) for number, each in self.constraints() if not each.is_distinct), (0, None))

    def constraints(self) -> Iterator[tuple[int, Constraint]]:
        """Those that its devices count for."""
        return (
            (number, each) for number, each in enumerate(self.claim.constraints, self.first) if each.covers(self.alternative)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestSets:
    """The largest sets of devices with the scope in common."""

    size: int
    labels: tuple[str, ...]
    """What they are called on the node; empty words where the scope is the node."""
    around: tuple[int, ...]
    """For each all devices of the node that have the scope in common with it, free or not."""


def find_largest(statics: Statics, asked: Asked, mask: int, size_of: Callable[[int], int]) -> LargestSets:
    """The largest sets out of ``mask``; ``size_of`` says how many of such devices can be had together."""
    groups = [mask]
    for number, constraint in asked.constraints():
        pattern = statics.patterns[number]
        groups = [_one_of_each(each, pattern) for each in groups] if constraint.is_distinct else split(groups, pattern)
    if asked.claim.policy.mode is Mode.REQUIRED:
        groups = [part for group in groups for part in _split_by_scope(statics, asked.claim, group)]
    sizes = [size_of(group) for group in groups]
    size, label = max(sizes, default=0), asked.scope[1]
    if not label:
        return LargestSets(size=size, labels=("",), around=((1 << statics.shape.size) - 1,))
    sets = _list_sets(statics, asked)
    if not size:
        return LargestSets(size=0, labels=(), around=tuple(sets))
    numbers = [_number_of(sets, group) for group, each in zip(groups, sizes, strict=True) if each == size]
    labels = tuple(f"{label} {number}" for number in numbers)
    return LargestSets(size=size, labels=labels, around=tuple(sets[number] for number in dict.fromkeys(numbers)))


def _list_sets(statics: Statics, asked: Asked) -> list[int]:
    """All sets of the kind that the label numbers, whatever is free, lowest position first."""
    number, constraint = asked.match
    if constraint is not None:
        everything = (1 << statics.shape.size) - 1
        return sorted(split([everything], statics.patterns[number]), key=lambda mask: mask & -mask)
    model, scope = statics.shape.tables.model, asked.claim.policy.scope
    if scope is Scope.NVLINK:
        return _components(statics.shape.tables)
    return split([statics.shape.tables.full], model.numas if scope is Scope.NUMA else model.roots)


def _split_by_scope(statics: Statics, claim: Claim, group: int) -> Iterable[int]:
    model = statics.shape.tables.model
    whole = group & statics.shape.tables.full
    if claim.policy.scope is Scope.NVLINK:
        return [_largest_ring(statics, claim, whole & island) for island in _components(statics.shape.tables)]
    if claim.policy.scope is Scope.NODE:
        return [group]
    return split([whole], model.numas if claim.policy.scope is Scope.NUMA else model.roots)


def _largest_ring(statics: Statics, claim: Claim, group: int) -> int:
    judge, classes = Objective(statics.shape), build_classes(statics, 0, group)
    for size in range(group.bit_count(), 1, -1):
        for mask in subsets(group, size, classes, ()):
            if judge.is_met(claim.policy, mask):
                return mask
    return group & -group


def _components(tables: LinkTables) -> list[int]:
    """What NVLink holds together, lowest position first."""
    rest, components = tables.full, []
    while rest:
        component, edge = 0, rest & -rest
        while edge:
            component |= edge
            reached = 0
            for at in positions_of(edge):
                reached |= tables.model.nvlinked[at]
            edge = reached & ~component
        components.append(component)
        rest &= ~component
    return components


def _one_of_each(mask: int, pattern: Sequence[int]) -> int:
    return sum(part & -part for part in split([mask], pattern))


def _number_of(sets: Sequence[int], group: int) -> int:
    return next((number for number, mask in enumerate(sets) if mask & group), 0)
