"""The decision: the best node for a pod's claims, and the devices there."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

from driver.allocator.fleet import BucketKey, Fleet, View
from driver.allocator.miss import Miss, build_miss
from driver.allocator.problem import Problem
from driver.allocator.search import Found
from driver.allocator.slots import Pick


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the claims go."""

    node: str
    picks: tuple[Pick, ...]
    is_proved: bool
    """The best there is, not only the best that was found in the steps that a search may take."""


def anywhere(_node: str) -> bool:
    """The pod may go to every node."""
    return True


def anything(_found: Found) -> bool:
    """Every placement is welcome."""
    return True


def place(
    fleet: Fleet,
    problem: Problem,
    *,
    allows: Callable[[str], bool] = anywhere,
    only: Sequence[str] | None = None,
    accepts: Callable[[Found], bool] = anything,
) -> Placement | None:
    """The best placement on a node that ``allows`` admits, None where nothing fits now.

    ``allows`` is asked in order of preference and seldom more than once, so it may be slow. ``only`` names the nodes that there
    are to choose from, where these are few. What ``accepts`` turns down is as good as not there (the hold rule).
    """
    view = fleet.view(problem)
    answers = ((view.answer(key, names[0]), names) for key, names in _buckets(view, only))
    found = [(answer, names) for answer, names in answers if isinstance(answer, Found) and accepts(answer)]
    for node, answer in _in_order(found):
        if allows(node):
            return Placement(node=node, picks=answer.picks, is_proved=answer.is_proved)
    return None


def explain(
    fleet: Fleet, problem: Problem, *, allows: Callable[[str], bool] = anywhere, only: Sequence[str] | None = None
) -> Miss:
    """Why ``place`` found nothing: the nearest miss in numbers."""
    view = fleet.view(problem)
    allowed = [(key, [name for name in names if allows(name)]) for key, names in _buckets(view, only)]
    return build_miss(fleet, view, [(key, names) for key, names in allowed if names])


def _buckets(view: View, only: Sequence[str] | None) -> Iterable[tuple[BucketKey, Sequence[str]]]:
    return list(view.index.buckets()) if only is None else _some(view, only)


def _some(view: View, names: Sequence[str]) -> list[tuple[BucketKey, Sequence[str]]]:
    buckets: dict[BucketKey, list[str]] = {}
    for name in sorted(names):
        key = view.index.key_of(name)
        if key is not None:
            buckets.setdefault(key, []).append(name)
    return list(buckets.items())


def _in_order(found: Sequence[tuple[Found, Sequence[str]]]) -> Iterator[tuple[str, Found]]:
    """Nodes from the best on: by score, then by name. Nearly always the first is taken, so it comes without sorting."""
    left = list(found)
    while left:
        best = min(answer.score for answer, _ in left)
        equal = [(answer, names) for answer, names in left if answer.score == best]
        yield from heapq.merge(*(_named(names, answer) for answer, names in equal), key=itemgetter(0))
        left = [(answer, names) for answer, names in left if answer.score != best]


def _named(names: Sequence[str], answer: Found) -> Iterator[tuple[str, Found]]:
    return ((name, answer) for name in names)
