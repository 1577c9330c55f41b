"""Pods that name claims: which of them wait, and who uses which claim. Pods without claims are not kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from driver.controller.objects.life import ENDED
from driver.controller.objects.model import Claim, Pod, PodClaim
from driver.kube.changes import Change, ChangeKind

ClaimKey = tuple[str, str]
"""Namespace and name."""


class PodBook:
    """Pods with claims by uid."""

    def __init__(self, schedulers: frozenset[str]) -> None:
        self._schedulers = schedulers
        self._pods: dict[str, Pod] = {}
        self._waiting: dict[str, Pod] = {}
        self._users: dict[ClaimKey, tuple[str, ...]] = {}
        self.by_uid: Mapping[str, Pod] = MappingProxyType(self._pods)
        self.waiting: Mapping[str, Pod] = MappingProxyType(self._waiting)
        """Those that would run if all of their claims were allocated."""

    def note(self, change: Change[Pod]) -> bool:
        """A pod came, changed or went. False where it is and was without claims."""
        pod = change.item
        uid = pod.metadata.uid
        before = self._pods.pop(uid, None)
        self._waiting.pop(uid, None)
        is_kept = change.kind is not ChangeKind.DELETED and bool(pod.spec.resource_claims)
        if is_kept:
            self._pods[uid] = pod
            if self.find_obstacle(pod) is None:
                self._waiting[uid] = pod
        self._index(uid, before, pod if is_kept else None)
        return is_kept or before is not None

    def users(self, key: ClaimKey) -> tuple[str, ...]:
        """The uids of the pods that use the claim of this name."""
        return self._users.get(key, ())

    def find_obstacle(self, pod: Pod) -> str | None:
        """Why the pod does not wait for devices, in words; None where it does, or does so on the node that it has (R7)."""
        if pod.metadata.deletion_timestamp is not None:
            return "it is being deleted"
        if pod.status.phase in ENDED:
            return "it has ended"
        if pod.spec.scheduling_gates:
            return f"it has the scheduling gate {pod.spec.scheduling_gates[0].name}"
        if pod.spec.scheduler_name not in self._schedulers:
            return f"its scheduler {pod.spec.scheduler_name} is not one that the controller works for"
        return None

    def _index(self, uid: str, before: Pod | None, after: Pod | None) -> None:
        old = frozenset(() if before is None else (key for _, key in list_claim_names(before) if key is not None))
        new = frozenset(() if after is None else (key for _, key in list_claim_names(after) if key is not None))
        for key in old - new:
            left = tuple(each for each in self._users[key] if each != uid)
            if left:
                self._users[key] = left
            else:
                del self._users[key]
        for key in new - old:
            self._users[key] = (*self._users.get(key, ()), uid)


def list_claim_names(pod: Pod) -> Iterator[tuple[PodClaim, ClaimKey | None]]:
    """The pod's claims with their names; None for one that is to be made from a template and is not yet.

    A claim that turned out not to be needed is left out.
    """
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name is not None:
            yield entry, (pod.metadata.namespace, entry.resource_claim_name)
        elif entry.name not in made:
            yield entry, None
        elif (name := made[entry.name]) is not None:
            yield entry, (pod.metadata.namespace, name)


def is_made_for(claim: Claim, pods: Collection[str]) -> bool:
    """Whether a pod of these uids is the claim's controlling owner."""
    return any(owner.controller and owner.uid in pods for owner in claim.metadata.owner_references)
