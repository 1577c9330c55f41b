"""What take-backs teach: nodes that a pod is not sent to again for now, and claims that are left for a while.

Nothing here is written down. A new leader may repeat a mistake once; it costs a take-back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from driver.controller.books.demands import Demand


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonRule:
    """The waits."""

    settle_s: float = 5.0
    """After an allocation was taken back, by whomever: what kube-scheduler has in flight must not meet another one (R6)."""
    avoid_s: float = 120.0
    """How long a node is left out at first; doubles with each time."""
    avoid_max_s: float = 3600.0
    refused_s: float = 10.0
    """After a write that the server refuses; doubles too."""
    refused_max_s: float = 600.0


@dataclass(slots=True)
class _Taught:
    """Of one pod."""

    attempts: int = 0
    nodes: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Until when, and why."""


class Lessons:
    """By pod and by claim; times are of the steady clock."""

    def __init__(self, rule: LessonRule) -> None:
        self._rule = rule
        self._pods: dict[str, _Taught] = {}
        self._resting: dict[str, float] = {}
        self._refusals: dict[str, int] = {}

    def learn(self, pod_uids: Iterable[str], node: str, reason: str, now_s: float) -> None:
        """These pods did not get to run on this node."""
        for uid in pod_uids:
            taught = self._pods.setdefault(uid, _Taught())
            wait_s = min(self._rule.avoid_max_s, self._rule.avoid_s * 2.0 ** min(taught.attempts, 20))
            taught.attempts += 1
            taught.nodes[node] = (now_s + wait_s, reason)

    def rest(self, claim_uid: str, now_s: float) -> None:
        """The claim lost its allocation: it gets none for a moment."""
        self._resting[claim_uid] = max(self._resting.get(claim_uid, 0.0), now_s + self._rule.settle_s)

    def note_refused(self, claim_uid: str, now_s: float) -> None:
        """The server refused to store an allocation for the claim."""
        count = self._refusals[claim_uid] = self._refusals.get(claim_uid, 0) + 1
        wait_s = min(self._rule.refused_max_s, self._rule.refused_s * 2.0 ** min(count - 1, 20))
        self._resting[claim_uid] = now_s + wait_s

    def note_written(self, claim_uid: str) -> None:
        """The server stored one."""
        self._refusals.pop(claim_uid, None)

    def forget_pod(self, uid: str) -> None:
        """The pod is gone or bound."""
        self._pods.pop(uid, None)

    def forget_claim(self, uid: str) -> None:
        """The claim is gone."""
        self._resting.pop(uid, None)
        self._refusals.pop(uid, None)

    def attempts(self, pod_uids: Iterable[str]) -> int:
        """How often one of these pods was placed in vain."""
        return max((self._pods[uid].attempts for uid in pod_uids if uid in self._pods), default=0)

    def is_resting(self, demand: Demand, now_s: float) -> bool:
        """Whether a claim of the demand is to be left for now."""
        return any(self._resting.get(each.metadata.uid, 0.0) > now_s for each in demand.claims)

    def avoided(self, demand: Demand, now_s: float) -> dict[str, str]:
        """The nodes that are left out for a demand, and why."""
        found: dict[str, str] = {}
        for pod in demand.pods:
            taught = self._pods.get(pod.metadata.uid)
            for node, (until_s, reason) in taught.nodes.items() if taught is not None else ():
                if until_s > now_s:
                    found[node] = reason
        return found

    def prune(self, now_s: float) -> None:
        """Drop the rests that are over."""
        for uid in [each for each, until_s in self._resting.items() if until_s <= now_s]:
            del self._resting[uid]

    def next_change_s(self, now_s: float) -> float | None:
        """In how many seconds something that was learned stops counting; None where nothing does."""
        until = [*self._resting.values(), *(each for taught in self._pods.values() for each, _ in taught.nodes.values())]
        return min((each - now_s for each in until if each > now_s), default=None)
