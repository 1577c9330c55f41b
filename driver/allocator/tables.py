"""What is worth knowing of a machine's links, worked out once for each link matrix. Sets of positions are bit masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations

from driver.allocator.links import LinkModel
from driver.allocator.rings import Ring, choose_ring

IDEAL_SIZES = (8, 4, 2)
"""What larger requests ask for; the loss of such sets is the damage that a choice does."""

PARTS = 1_000_000
"""Losses are counted in parts of the best, so that machines of all generations compare (R19)."""

Damage = tuple[int, int, int]
"""Disjoint ideal eights, fours and twos that are no longer there."""


def positions_of(mask: int) -> Iterator[int]:
    """The positions in a mask, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class LinkTables:
    """Answers about sets of GPUs of one machine; each is worked out when it is first asked for."""

    def __init__(self, model: LinkModel) -> None:
        self.model = model
        self.size = len(model.values)
        self.full = (1 << self.size) - 1
        self._alike = _twin_masks(self.size, lambda a, b: model.values[a][b])
        self.twins = _twin_masks(
            self.size, lambda a, b: (model.values[a][b], model.roots[a] == model.roots[b], model.numas[a] == model.numas[b])
        )
        """Masks of GPUs that no question tells apart: same links, same neighbours."""
        self._rings: dict[tuple[int, ...], Ring] = {}
        self._best: dict[int, Ring] = {}
        self._ideal: dict[int, tuple[tuple[int, ...], ...]] = {}
        self._disjoint: dict[tuple[int, tuple[int, ...]], int] = {}
        self._damage: dict[tuple[int, int], Damage] = {}
        self._bandwidth: dict[int, int] = {}

    def ring(self, mask: int) -> Ring:
        """The best ring over the set."""
        return self._ring(self._counts(mask))

    def best(self, size: int) -> Ring:
        """The best ring of this size when the whole machine is free."""
        known = self._best.get(size)
        if known is None:
            sizes = [alike.bit_count() for alike in self._alike]
            known = self._best[size] = max((self._ring(each) for each in _count_vectors(sizes, size)), default=(0, 0))
        return known

    def loss(self, mask: int) -> tuple[int, int]:
        """How far the best ring over the set is from the best of that size, in parts: by weakest hop, then by sum."""
        ring, best = self.ring(mask), self.best(mask.bit_count())
        return _lost(ring[0], best[0]), _lost(ring[1], best[1])

    def disjoint(self, mask: int, size: int) -> int:
        """How many ideal sets of this size, no two of which overlap, the set holds."""
        return self._most(size, self._counts(mask)) if size <= self.size else 0

    def damage(self, free: int, taken: int) -> Damage:
        """What taking ``taken`` costs those who come later."""
        left = free & ~taken
        key = (free, left)
        known = self._damage.get(key)
        if known is None:
            eights, fours, twos = (self.disjoint(free, size) - self.disjoint(left, size) for size in IDEAL_SIZES)
            known = self._damage[key] = (eights, fours, twos)
        return known

    def bandwidth(self, mask: int) -> int:
        """The sum of all links within the set."""
        known = self._bandwidth.get(mask)
        if known is None:
            members = list(positions_of(mask))
            known = self._bandwidth[mask] = sum(self.model.values[a][b] for a, b in combinations(members, 2))
        return known

    def numa_nodes(self, mask: int) -> int:
        """How many NUMA nodes the set lies on; an unknown one counts for each GPU."""
        return len({self.model.numas[position] for position in positions_of(mask)})

    def pcie_roots(self, mask: int) -> int:
        """How many PCIe roots the set hangs below; an unknown one counts for each GPU."""
        return len({self.model.roots[position] for position in positions_of(mask)})

    def is_nvlink_ring(self, mask: int) -> bool:
        """True when every hop of some best ring is NVLink; GPUs alone have no hop."""
        return mask.bit_count() < 2 or self.ring(mask)[0] >= self._least_nvlink()

    def _least_nvlink(self) -> int:
        worths = [self.model.values[a][b] for a, peers in enumerate(self.model.nvlinked) for b in positions_of(peers)]
        return min(worths, default=1 << 30)

    def _counts(self, mask: int) -> tuple[int, ...]:
        return tuple([(mask & alike).bit_count() for alike in self._alike])

    def _ring(self, counts: tuple[int, ...]) -> Ring:
        known = self._rings.get(counts)
        if known is None:
            known = self._rings[counts] = choose_ring(counts, self._worth)
        return known

    def _worth(self, a: int, b: int) -> int:
        first = (self._alike[a] & -self._alike[a]).bit_length() - 1
        other = self._alike[b] & ~(1 << first)
        return self.model.values[first][(other & -other).bit_length() - 1] if other else 0

    def _most(self, size: int, counts: tuple[int, ...]) -> int:
        if sum(counts) < size:
            return 0
        key = (size, counts)
        known = self._disjoint.get(key)
        if known is None:
            known = self._disjoint[key] = self._count_disjoint(size, counts)
        return known

    def _count_disjoint(self, size: int, counts: tuple[int, ...]) -> int:
        """The first class that has GPUs is either in a set or in none."""
        first = next(c for c, count in enumerate(counts) if count)
        most = self._most(size, (*counts[:first], 0, *counts[first + 1 :]))
        bound = sum(counts) // size
        for ideal in self._ideal_sets(size):
            if most == bound:
                break
            if ideal[first] and all(a <= b for a, b in zip(ideal, counts, strict=True)):
                most = max(most, 1 + self._most(size, tuple([b - a for a, b in zip(ideal, counts, strict=True)])))
        return most

    def _ideal_sets(self, size: int) -> tuple[tuple[int, ...], ...]:
        known = self._ideal.get(size)
        if known is None:
            best = self.best(size)
            sizes = [alike.bit_count() for alike in self._alike]
            known = self._ideal[size] = tuple(each for each in _count_vectors(sizes, size) if self._ring(each) == best)
        return known


@lru_cache(maxsize=256)
def tables_of(model: LinkModel) -> LinkTables:
    """The tables of this machine."""
    return LinkTables(model)


def _lost(value: int, best: int) -> int:
    return (best - value) * PARTS // best if best else 0


def _twin_masks(size: int, relation: Callable[[int, int], object]) -> tuple[int, ...]:
    """Cuts positions into sets whose members have the same relation to everybody else."""
    masks: list[int] = []
    for position in range(size):
        for at, mask in enumerate(masks):
            twin = (mask & -mask).bit_length() - 1
            if all(relation(position, c) == relation(twin, c) for c in range(size) if c not in (position, twin)):
                masks[at] = mask | 1 << position
                break
        else:
            masks.append(1 << position)
    return tuple(masks)


def _count_vectors(sizes: Sequence[int], total: int) -> Iterator[tuple[int, ...]]:
    """All ways to take ``total`` out of groups of these sizes."""
    if len(sizes) <= 1:
        if sizes and total <= sizes[0]:
            yield (total,)
        return
    rest = sum(sizes[1:])
    for count in range(max(0, total - rest), min(sizes[0], total) + 1):
        for tail in _count_vectors(sizes[1:], total - count):
            yield (count, *tail)
