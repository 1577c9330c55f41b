"""Which of our allocations are idle, and since when: those that no bound pod uses (R5).

kube-controller-manager frees a claim after its last pod, but only where that pod was reserved and our guard is not there;
kube-scheduler frees one only where its own filter met it. What both leave, we take back. How long an allocation is idle counts
from when this leader first saw it so: a new leader gives everybody their time again.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from driver.controller.objects.life import ENDED
from driver.controller.objects.model import Claim, Pod
from driver.controller.objects.ownership import is_guard, is_ours, is_pod


class Idle(enum.Enum):
    """Why an allocation is of no use."""

    UNBOUND = "its pod was not bound"
    GATED = "its pod has scheduling gates again"
    GONE = "its pod is gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRule:
    """How long an allocation may be idle."""

    unbound_s: float = 60.0
    gone_s: float = 10.0
    """Time for kube-controller-manager, which is the first to free it."""
    doublings_max: int = 4

    @property
    def least_s(self) -> float:
        """What is idle for less is not due."""
        return min(self.unbound_s, self.gone_s)

    def limit_s(self, why: Idle, attempts: int) -> float:
        """The longest for a pod that was placed in vain so often before."""
        return self.unbound_s * 2.0 ** min(attempts, self.doublings_max) if why is Idle.UNBOUND else self.gone_s


def judge(claim: Claim, pods: Mapping[str, Pod]) -> Idle | None:
    """Why an allocation of ours is idle; None where it is not, or not ours, or kept by something else than a pod."""
    if not is_ours(claim) or any(not is_pod(each) and not is_guard(each) for each in claim.status.reserved_for):
        return None
    idle = Idle.GONE
    for each in claim.status.reserved_for:
        pod = pods.get(each.uid) if is_pod(each) else None
        if pod is None or pod.status.phase in ENDED:
            continue
        if pod.spec.node_name:
            return None
        if pod.metadata.deletion_timestamp is None:
            idle = Idle.GATED if pod.spec.scheduling_gates and idle is Idle.GONE else Idle.UNBOUND
    return idle


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleCase:
    """An allocation that is idle, since when by the steady clock, and for whom it was."""

    uid: str
    why: Idle
    since_s: float


class IdleWatch:
    """The allocations of ours that are idle. A claim is looked at when it changes, and then until it is in use."""

    def __init__(self) -> None:
        self._cases: dict[str, IdleCase] = {}

    def look(self, claim: Claim, pods: Mapping[str, Pod], now_s: float) -> None:
        """Judge a claim anew."""
        uid, why = claim.metadata.uid, judge(claim, pods)
        known = self._cases.get(uid)
        if why is None:
            self._cases.pop(uid, None)
        elif known is None or known.why is not why:
            self._cases.pop(uid, None)  # so that they stay in the order of their times
            self._cases[uid] = IdleCase(uid=uid, why=why, since_s=now_s)

    def forget(self, uid: str) -> None:
        """The claim is gone, or its allocation was taken back: another one starts anew."""
        self._cases.pop(uid, None)

    def cases(self, until_s: float = math.inf) -> Sequence[IdleCase]:
        """All that are idle since then or longer, the longest first."""
        return tuple(takewhile(lambda each: each.since_s <= until_s, self._cases.values()))
