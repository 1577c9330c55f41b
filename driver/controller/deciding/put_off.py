"""Claims and nodes whose upkeep was just tried: what is looked for in every round must not be tried in every round.

Upkeep is what nobody asked for: a guard or a mark to be removed, an allocation to be taken back, a node to be let go. It is due
for as long as the mirror shows it so; where the server refuses (a right is missing), or the watch is late, that may be long.
"""

from __future__ import annotations

from dataclasses import dataclass

_FIRST_S = 1.0
_MOST_S = 60.0


@dataclass(slots=True)
class _Wait:
    until_s: float
    failures: int = 0


class PutOff:
    """By the uid of the claim, or of the node; times are of the steady clock."""

    def __init__(self) -> None:
        self._waits: dict[str, _Wait] = {}

    def note_tried(self, uid: str, now_s: float, *, is_done: bool) -> None:
        """It was tried: not again for a second, and for longer with each time that it was in vain."""
        known = self._waits.get(uid)
        failures = 0 if is_done else 1 if known is None else known.failures + 1
        wait_s = min(_MOST_S, _FIRST_S * 2.0 ** min(max(0, failures - 1), 10))
        self._waits[uid] = _Wait(now_s + wait_s, failures)

    def is_put_off(self, uid: str, now_s: float) -> bool:
        """Whether it is too early to try again."""
        known = self._waits.get(uid)
        return known is not None and now_s < known.until_s

    def forget(self, uid: str) -> None:
        """The claim is gone."""
        self._waits.pop(uid, None)

    def prune(self, now_s: float) -> None:
        """Drop what succeeded, and what has not been tried for long."""
        for uid in [uid for uid, each in self._waits.items() if now_s >= each.until_s + (_MOST_S if each.failures else 0.0)]:
            del self._waits[uid]
