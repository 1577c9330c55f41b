"""Which records were seen to say what the API server says (R9)."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from driver.claims.record import ClaimRecord
from driver.names import ClaimUID


@dataclass(slots=True)
class Compared:
    """Which records were compared with the API server since the last registration (R9)."""

    era: int = 0
    """Raised at each registration; taken before the API server is asked, and given back to ``remember``."""
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _allocations: dict[ClaimUID, str] = field(default_factory=dict)

    def forget_all(self) -> None:
        """The kubelet has registered us again: it may have been away while claims changed."""
        with self._guard:
            self.era += 1
            self._allocations.clear()

    def remember(self, uid: ClaimUID, allocation: str, era: int) -> None:
        """The API server was seen, in ``era``, to have this allocation for the claim."""
        with self._guard:
            if era == self.era:
                self._allocations[uid] = allocation

    def forget(self, uid: ClaimUID) -> None:
        """The claim is unprepared."""
        with self._guard:
            self._allocations.pop(uid, None)

    def has(self, record: ClaimRecord) -> bool:
        """True when the record was made for the allocation that the API server was seen to have."""
        with self._guard:
            return self._allocations.get(ClaimUID(record.uid)) == record.allocation
