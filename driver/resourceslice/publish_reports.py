"""What a publisher of slices says of itself, and whom it tells and asks."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from driver.api.resource_v1 import Device
from driver.resourceslice.content import SliceContent


class PublishState(enum.Enum):
    """What each means is told by ``publish``."""

    WAITING = "waiting"
    PUBLISHED = "published"
    FAILING = "failing"
    YIELDED = "yielded"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishStatus:
    """Where the publisher stands; ``error`` is the last failure's text while it is *failing* or *refused*."""

    state: PublishState = PublishState.WAITING
    generation: int = 0
    slices: int = 0
    devices: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherReports:
    """Whom the publisher tells and asks; all are called from its own thread and must not block for long."""

    say: Callable[[str, str], None]
    """What people should see, in the log and as an event: a reason in CamelCase, and a sentence. Each text once."""
    refuse: Callable[[str], None]
    """Another driver of our name serves this node: the process should stop with this text. Nothing was written."""
    settled: Callable[[], None] = lambda: None
    """What was given to ``publish`` is in place."""
    wrote: Callable[[int], None] = lambda _: None
    """So many slices were written."""
    failed: Callable[[Exception], None] = lambda _: None
    """A try failed; the next comes by itself."""
    allows: Callable[[Sequence[SliceContent]], bool] = lambda _: True
    """Whether this may still be written: another instance may have decided otherwise since. Raises ``StateUnwritable``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Devices of the pool: what was asked for, and what the API server has. They differ where it drops fields."""

    asked: tuple[Device, ...]
    stored: tuple[Device, ...]
