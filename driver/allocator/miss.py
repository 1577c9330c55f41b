"""Why nothing fits, in numbers: the nearest miss over all nodes that the pod may go to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from driver.allocator.choices import build_classes, split, subsets
from driver.allocator.fleet import BucketKey, Fleet, View
from driver.allocator.objective import Objective
from driver.allocator.problem import Alternative, Claim
from driver.allocator.search import NotFound
from driver.allocator.statics import Statics
from driver.allocator.tables import LinkTables, positions_of
from driver.api.topology_policy import Mode, Scope

_MOST_NAMED = 3
_LABELS = {
    "nvlinkIsland": ("NVLink island", "island"),
    "nvlinkQuad": ("NVLink quad", "quad"),
    "nvlinkPair": ("NVLink pair", "pair"),
    "nvlinkDomain": ("NVLink domain", "domain"),
    "numaNode": ("NUMA node", "NUMA node"),
    "pcieRoot": ("PCIe root", "root"),
}
_SCOPES = {Scope.NVLINK: "nvlinkIsland", Scope.NUMA: "numaNode", Scope.PCIE: "pcieRoot"}

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
    """Free devices that match the request, over all nodes."""
    taken: int
    """Devices that match the request and are somebody's, or tainted."""
    largest: int
    """The most of them that have the scope in common."""
    where: tuple[str, ...]
    """Where the largest sets are, at most three."""
    faults: tuple[str, ...] = ()
    """Selectors that failed, each with the first device that it failed on."""
    is_together: bool = False
    """Each request would fit alone, all of them fit nowhere."""
    undecided: int = 0
    """Nodes on which the search ended before it could tell."""

    @property
    def text(self) -> str:
        """``5 nodes, 20 free GPUs; need 4 on one NVLink island; largest free set is 2 (node-a island 0, ...)``."""
        parts = [f"{_count(self.nodes, 'node')}, {_count(self.free, 'free GPU')}"]
        if self.free + self.taken == 0:
            parts.append(f"no device of theirs matches request {self.request}")
        else:
            parts.append(f"need {self.need or 'all'} on {self.scope}")
            named = ", ".join(self.where) + (", ..." if len(self.where) == _MOST_NAMED else "")
            parts.append(f"largest free set is {self.largest}" + (f" ({named})" if named and self.largest else ""))
        if self.is_together:
            parts.append("each request fits alone, but no node has room for all of them together")
        if self.undecided:
            parts.append(f"on {_count(self.undecided, 'node')} the search ended before it could tell")
        return "; ".join([*parts, *(f"selector failed on {fault}" for fault in self.faults)])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sum:
    """One request over all nodes."""

    alternative: Alternative
    scope: str
    free: int
    taken: int
    largest: int
    where: tuple[str, ...]

    @property
    def fits(self) -> bool:
        return self.largest >= max(1, self.alternative.count)


def build_miss(fleet: Fleet, view: View, buckets: Buckets) -> Miss:
    """The nearest miss: of the requests that fit nowhere the first, else the largest."""
    sums = [_sum_up(fleet, view, buckets, claim, flat, alternative) for claim, flat, alternative in _hardest(view)]
    failing = [each for each in sums if not each.fits]
    shown = failing[0] if failing else max(sums, key=lambda each: each.alternative.count)
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
        request=shown.alternative.name,
        need=shown.alternative.count,
        scope=shown.scope,
        free=shown.free,
        taken=shown.taken,
        largest=shown.largest,
        where=shown.where,
        faults=tuple(sorted(faults)[:_MOST_NAMED]),
        is_together=not failing,
        undecided=sum(len(names) for key, names in buckets if not _is_proved(view, key, names)),
    )


def _hardest(view: View) -> Iterator[tuple[int, int, Alternative]]:
    """For each request the alternative that is easiest to have, by count."""
    flat = 0
    for number, claim in enumerate(view.problem.claims):
        for request in claim.requests:
            numbered = list(enumerate(request.alternatives, flat))
            flat += len(numbered)
            yield number, *min(numbered, key=lambda each: (each[1].count, -each[0]))


def _sum_up(fleet: Fleet, view: View, buckets: Buckets, claim_number: int, flat: int, alternative: Alternative) -> _Sum:
    claim = view.problem.claims[claim_number]
    free = taken = largest = 0
    where: list[str] = []
    for key, names in buckets:
        statics = view.index.statics(key)
        gone = 0 if alternative.is_admin else fleet.taken(names[0]).mask
        open_ = statics.eligible[flat] & ~gone
        matching = statics.eligible[flat] | statics.matching[flat]
        free += open_.bit_count() * len(names)
        taken += (matching & ~open_).bit_count() * len(names)
        size, labels = _largest(view, statics, claim_number, alternative, open_)
        if size > largest:
            largest, where = size, []
        if size == largest and size:
            where += [f"{name} {label}".strip() for name in names[:_MOST_NAMED] for label in labels]
    return _Sum(
        alternative=alternative,
        scope=f"one {_scope(claim, alternative)[0]}",
        free=free,
        taken=taken,
        largest=largest,
        where=tuple(sorted(where)[:_MOST_NAMED]),
    )


def _largest(view: View, statics: Statics, claim_number: int, alternative: Alternative, mask: int) -> tuple[int, list[str]]:
    """The size of the largest set with the scope in common, and what such sets are called on the node."""
    claim = view.problem.claims[claim_number]
    first = sum(len(each.constraints) for each in view.problem.claims[:claim_number])
    groups = [mask]
    for number, constraint in enumerate(claim.constraints, first):
        if constraint.covers(alternative):
            pattern = statics.patterns[number]
            groups = [_one_of_each(each, pattern) for each in groups] if constraint.is_distinct else split(groups, pattern)
    if claim.policy.mode is Mode.REQUIRED:
        groups = [part for group in groups for part in _split_by_scope(statics, claim, group)]
    size = max((group.bit_count() for group in groups), default=0)
    label = _scope(claim, alternative)[1]
    if not label:
        return size, [""]
    sets = _sets_of_node(statics, claim, first, alternative)
    return size, [f"{label} {_number_of(sets, group)}" for group in groups if group.bit_count() == size]


def _scope(claim: Claim, alternative: Alternative) -> tuple[str, str]:
    """What the devices must have in common: as a phrase, and as a label before a number."""
    for constraint in claim.constraints:
        if constraint.covers(alternative) and not constraint.is_distinct:
            name = constraint.attribute.rpartition("/")[2]
            return _LABELS.get(name, (f"value of {name}", name))
    if claim.policy.mode is Mode.REQUIRED and claim.policy.scope in _SCOPES:
        return _LABELS[_SCOPES[claim.policy.scope]]
    return "node", ""


def _sets_of_node(statics: Statics, claim: Claim, first: int, alternative: Alternative) -> list[int]:
    """All sets of the kind that the label numbers, whatever is free, lowest position first."""
    everything = (1 << statics.shape.size) - 1
    for number, constraint in enumerate(claim.constraints, first):
        if constraint.covers(alternative) and not constraint.is_distinct:
            return sorted(split([everything], statics.patterns[number]), key=lambda mask: mask & -mask)
    model = statics.shape.tables.model
    if claim.policy.scope is Scope.NVLINK:
        return _components(statics.shape.tables)
    pattern = model.numas if claim.policy.scope is Scope.NUMA else model.roots
    return split([statics.shape.tables.full], pattern)


def _number_of(sets: Sequence[int], group: int) -> int:
    return next((number for number, mask in enumerate(sets) if mask & group), 0)


def _split_by_scope(statics: Statics, claim: Claim, group: int) -> Iterable[int]:
    model = statics.shape.tables.model
    whole = group & statics.shape.tables.full
    if claim.policy.scope is Scope.NVLINK:
        return [_largest_ring(statics, claim, whole & island) for island in _components(statics.shape.tables)]
    if claim.policy.scope is Scope.NODE:
        return [group]
    return split([whole], model.numas if claim.policy.scope is Scope.NUMA else model.roots)


def _largest_ring(statics: Statics, claim: Claim, group: int) -> int:
    judge, classes = Objective(statics.shape), build_classes(statics, 0)
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


def _is_proved(view: View, key: BucketKey, names: Sequence[str]) -> bool:
    answer = view.answer(key, names[0])
    return not isinstance(answer, NotFound) or answer.is_proved


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
