"""What the controller needs to know: plain values, which ``cli`` takes from the process's settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from driver.allocator.hold import HoldRule
from driver.controller.books.mirror import DEFAULT_SCHEDULERS
from driver.controller.deciding.lessons import LessonRule
from driver.controller.deciding.takeback import IdleRule
from driver.controller.election.lease import ElectionSettings
from driver.controller.writing.attempt import WritePace

OLDEST_KUBERNETES = (1, 36)
"""Device taints, by which devices are fenced, and consumers that are no pods (the guard) work from here on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """One controller's."""

    driver_name: str
    election: ElectionSettings
    schedulers: frozenset[str] = DEFAULT_SCHEDULERS
    """Whose pods are served."""
    health_address: str = ""
    writers: int = 16
    """Claims of so many demands are written at the same time. Eight were a little slower, twenty-four no quicker
    (``docs/performance.md``)."""
    max_in_flight: int = 64
    """Demands that are decided and not yet written: more would be decided on a cluster that is long another."""
    max_take_backs: int = 4
    """At a time: each waits for kube-scheduler to see it, and placing goes before."""
    idle: IdleRule = field(default_factory=IdleRule)
    lessons: LessonRule = field(default_factory=LessonRule)
    pace: WritePace = field(default_factory=WritePace)
    hold: HoldRule | None = None
