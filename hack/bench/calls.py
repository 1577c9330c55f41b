"""What a client process is told to do, and what it answers: one line of JSON each. Values only."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Claim: TypeAlias = tuple[str, str, str]
"""Namespace, name, uid."""


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One call: to whom, which, with what claims."""

    socket: str
    method: Literal["prepare", "unprepare"]
    claims: tuple[Claim, ...] = ()


class Order(msgspec.Struct, frozen=True):
    """Callers side by side, each with its calls one after the other. They begin at ``at``, a time of the monotonic clock."""

    callers: tuple[tuple[Step, ...], ...]
    at: float = 0.0


class Took(msgspec.Struct, frozen=True, array_like=True):
    """A call that came back: how long it took, when it did, and the first error of its claims."""

    ms: float
    ended_at: float
    error: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """A list a caller, in the order of the order."""

    callers: tuple[tuple[Took, ...], ...]


def spread(callers: tuple[tuple[Step, ...], ...], processes: int) -> list[tuple[tuple[Step, ...], ...]]:
    """The callers dealt out to so many processes as evenly as may be; a process without one is left out."""
    dealt = [callers[start::processes] for start in range(processes)]
    return [share for share in dealt if share]
