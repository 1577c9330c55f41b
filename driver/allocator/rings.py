"""The best ring over a set of GPUs: its weakest hop, then the sum of its hops.

GPUs of one class look the same to all others, so a ring is sought over classes with counts: two hops of one kind are one case.
A full mesh has one class and costs nothing; eight GPUs that all differ are eight classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add

_MOST_STATES = 1 << 15
"""Beyond it (no known machine) the ring is built hop by hop, so that no input makes this slow."""

Ring = tuple[int, int]
"""Weakest hop and sum of the hops; larger is better."""

NO_RING: Ring = (0, 0)
"""One GPU has no hops: all of them are worth the same."""


def choose_ring(counts: Sequence[int], worth: Callable[[int, int], int]) -> Ring:
    """The best ring over ``counts[c]`` GPUs of each class ``c``; ``worth(c, d)`` is a hop between two classes.

    Two GPUs are joined by one hop, which counts once.
    """
    classes = [c for c, count in enumerate(counts) if count]
    size = sum(counts)
    if size < 2:
        return NO_RING
    if len(classes) == 1:
        hop = worth(classes[0], classes[0])
        return hop, hop * (size if size > 2 else 1)
    if size == 2:
        hop = worth(classes[0], classes[1])
        return hop, hop
    hops = [[worth(a, b) for b in classes] for a in classes]
    search = _RingSearch([counts[c] for c in classes], hops)
    return search.greedy() if search.states > _MOST_STATES else search.best()


class _RingSearch:
    """Paths that start at one GPU of the smallest class, by what is left of each class and where they stand."""

    def __init__(self, counts: list[int], hops: list[list[int]]) -> None:
        self._hops = hops
        self._start = min(range(len(counts)), key=lambda c: (counts[c], c))
        counts[self._start] -= 1
        self._counts = counts
        self._bases: list[int] = []
        states = 1
        for count in counts:
            self._bases.append(states)
            states *= count + 1
        self.states = states * len(counts)

    def best(self) -> Ring:
        """The ring with the widest weakest hop; of those, the one with the largest sum."""
        weakest = self._run(bottleneck=True, floor=0)
        return weakest, self._run(bottleneck=False, floor=weakest)

    def greedy(self) -> Ring:
        """A good ring: always the best next hop."""
        left, at, weakest, total = list(self._counts), self._start, self._hops[0][0] + (1 << 30), 0
        for _ in range(sum(left)):
            nearest = max((c for c, count in enumerate(left) if count), key=lambda c: (self._hops[at][c], -c))
            weakest, total = min(weakest, self._hops[at][nearest]), total + self._hops[at][nearest]
            left[nearest] -= 1
            at = nearest
        last = self._hops[at][self._start]
        return min(weakest, last), total + last

    def _run(self, *, bottleneck: bool, floor: int) -> int:
        """The widest weakest hop, or the largest sum over hops of at least ``floor``."""
        full = sum(count * base for count, base in zip(self._counts, self._bases, strict=True))
        layer: dict[tuple[int, int], int] = {(full, self._start): 1 << 30 if bottleneck else 0}
        for _ in range(sum(self._counts)):
            layer = self._extend(layer, bottleneck=bottleneck, floor=floor)
        join = min if bottleneck else add
        ends = [(value, self._hops[at][self._start]) for (_, at), value in layer.items()]
        return max((join(value, hop) for value, hop in ends if hop >= floor), default=0)

    def _extend(self, layer: dict[tuple[int, int], int], *, bottleneck: bool, floor: int) -> dict[tuple[int, int], int]:
        join = min if bottleneck else add
        longer: dict[tuple[int, int], int] = {}
        for (left, at), value in layer.items():
            hops = self._hops[at]
            for c, base in enumerate(self._bases):
                if hops[c] < floor or left // base % (self._counts[c] + 1) == 0:
                    continue
                reached = join(value, hops[c])
                key = (left - base, c)
                if longer.get(key, -1) < reached:
                    longer[key] = reached
        return longer
