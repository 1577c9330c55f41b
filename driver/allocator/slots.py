"""The requests of a problem in the order in which they are served."""

from __future__ import annotations

from typing import NamedTuple

from driver.allocator.problem import Alternative, Problem


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
