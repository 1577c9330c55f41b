"""Whether a call for a claim may still take effect (R8)."""

from __future__ import annotations

from dataclasses import dataclass

from driver.claims.ended import EndedLog
from driver.claims.model import CallContext, ClaimRef
from driver.errors import ClaimBusy


@dataclass(slots=True, kw_only=True)
class Arrival:
    """A call for a claim, as it came in: what it must still be when it takes effect (R8)."""

    ref: ClaimRef
    call: CallContext
    ended: EndedLog
    came_at: int
    """Where the log of unprepares ended."""
    era: int = 0

    def is_over(self) -> bool:
        """True when nobody listens any more, or an unprepare has begun since."""
        return not self.call.is_active() or self.call.deadline().is_past() or self.ended.has_begun(self.ref.uid, self.came_at)

    def validate(self) -> None:
        """Raises ``ClaimBusy`` when the call must not take effect."""
        if self.is_over():
            raise ClaimBusy(f"{self.ref}: the call is over, or an unprepare began since; nothing was left prepared by it")
