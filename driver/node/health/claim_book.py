"""Which claims are to be looked at now, and which later: no threads, no server, no clock of its own.

Each claim is looked at until it says what is wanted; what is wanted last counts. A claim is written to no more often than
``pace_s``, however often its devices change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from driver.claims.record import ClaimRecord, State
from driver.names import DeviceName
from driver.node.health.claim_conditions import Change, Verdict, Verdicts

Wanted = tuple[Verdict | str | None, ...]

_NOT_JUDGED = "not judged"
PACE_S = 10.0


@dataclass(slots=True)
class _Page:
    """What is known of one claim."""

    settled: Wanted | None = None
    """What the claim says by now."""
    not_before_s: float = 0.0
    told: tuple[Change, ...] = ()
    is_refused: bool = False
    """The server said no to what was last to be written."""


@dataclass(slots=True)
class ClaimHealthBook:
    """For one thread."""

    pace_s: float = PACE_S
    _pages: dict[str, _Page] = field(default_factory=dict)
    _is_first: bool = True

    def list_open(self, records: Iterable[ClaimRecord], verdicts: Verdicts) -> list[ClaimRecord]:
        """The claims that do not say yet what they should, as far as that is known; others than these records are forgotten.

        What an earlier process wrote is not known: all that are held when the first call is made are among them. A claim that
        comes later, on devices that are well, has nothing to say.
        """
        held = {each.uid: each for each in records if each.state is State.PREPARE_COMPLETED}
        for uid in self._pages.keys() - held.keys():
            del self._pages[uid]
        for uid, record in held.items():
            wanted = build_wanted(record, verdicts)
            is_plain = not self._is_first and all(each is None for each in wanted)
            self._pages.setdefault(uid, _Page(settled=wanted if is_plain else None))
        self._is_first = False
        return [record for uid, record in held.items() if self._pages[uid].settled != build_wanted(record, verdicts)]

    def list_due(self, open_: Sequence[ClaimRecord], now_s: float) -> list[ClaimRecord]:
        """Those whose turn has come, the longest due first."""
        due = [each for each in open_ if self._pages[each.uid].not_before_s <= now_s]
        return sorted(due, key=lambda each: self._pages[each.uid].not_before_s)

    def count_wait_s(self, open_: Sequence[ClaimRecord], now_s: float) -> float | None:
        """Until the next is due; None where none is open."""
        return min((max(0.0, self._pages[each.uid].not_before_s - now_s) for each in open_), default=None)

    def note_settled(self, uid: str, wanted: Wanted, now_s: float, *, is_written: bool) -> None:
        """The claim says it now, or never will: it is gone."""
        page = self._pages[uid]
        page.settled, page.is_refused = wanted, False
        if is_written:
            page.not_before_s = now_s + self.pace_s

    def put_off(self, uid: str, until_s: float, *, is_refused: bool = False) -> bool:
        """It could not be written. Whether it is news that the server refuses it."""
        page = self._pages[uid]
        is_news = is_refused and not page.is_refused
        page.not_before_s, page.is_refused = until_s, is_refused
        return is_news

    def is_news(self, uid: str, changes: tuple[Change, ...]) -> bool:
        """Whether people have not been told this yet; from now on they have."""
        page = self._pages[uid]
        is_news = bool(changes) and page.told != changes
        page.told = changes or page.told
        return is_news


def build_wanted(record: ClaimRecord, verdicts: Verdicts) -> Wanted:
    """What the claim of this record should say."""
    return tuple(verdicts.get(DeviceName(each.device), _NOT_JUDGED) for each in record.devices)
