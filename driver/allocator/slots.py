"""The requests of a problem in the order in which they are served, and what counting alone says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from driver.allocator.choices import split
from driver.allocator.problem import Alternative, Constraint, Problem
from driver.allocator.statics import Statics


class Pick(NamedTuple):
    """The devices of one request."""

    claim: int
    request: int
    alternative: Alternative
    flat: int
    """The alternative's number over the whole problem."""
    mask: int


class Slot(NamedTuple):
    """A request, with its alternatives by their numbers over the whole problem."""

    claim: int
    request: int
    alternatives: tuple[tuple[int, Alternative], ...]
    ends_claim: bool


def build_slots(problem: Problem) -> tuple[Slot, ...]:
    """Claim by claim, request by request."""
    slots: list[Slot] = []
    flat = 0
    for c, claim in enumerate(problem.claims):
        for r, request in enumerate(claim.requests):
            numbered = tuple(enumerate(request.alternatives, flat))
            flat += len(numbered)
            slots.append(Slot(c, r, numbered, r == len(claim.requests) - 1))
    return tuple(slots)


def is_hopeless(slots: Sequence[Slot], constraints: Sequence[tuple[int, Constraint]], statics: Statics, taken: int) -> bool:
    """True where counting alone says that there is no placement: what would make a search try everything in vain.

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
