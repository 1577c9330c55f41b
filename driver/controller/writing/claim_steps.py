"""What a write to a claim does next, given the claim as it is now. Pure, and safe to ask again after anything that happened.

A placement is two writes: *mark* (finalizer and annotation, main object), *allocate* (status). A take-back is three:
*withdraw* (the pods leave ``reservedFor``, our guard stays), *clear* (status), *unmark*. Between withdraw and clear the pods
are read again: one that was bound meanwhile keeps its claim. Since kube-scheduler must add a pod that is not listed before it
binds it, the resourceVersion decides who was first. Every write has the resourceVersion of the claim that it was planned on.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from driver.api.claim_spec_v1 import ClaimAllocation
from driver.controller.objects.life import ENDED
from driver.controller.objects.model import Claim, Consumer, Pod
from driver.controller.objects.ownership import (
    ALLOCATION_ANNOTATION,
    FINALIZER,
    build_guard,
    digest_allocation,
    has_guard,
    is_guard,
    is_ours,
    is_pod,
    merge_consumers,
    read_mark,
)


class Step(enum.Enum):
    """One write."""

    MARK = "mark"
    ALLOCATE = "allocate"
    SETTLE = "settle"
    """``reservedFor`` as it shall be, without the guard."""
    WITHDRAW = "withdraw"
    CLEAR = "clear"
    UNMARK = "unmark"


class End(enum.Enum):
    """How it ended."""

    DONE = "done"
    TAKEN = "taken"
    """The claim has an allocation that is not ours, or not this one: it is respected."""
    GONE = "gone"
    IN_USE = "in use"
    """A pod is bound to it: it stays."""
    REFUSED = "refused"
    """The server says that it must not be, whenever it is asked."""
    GIVEN_UP = "given up"
    """Nothing was written, and nothing still can be."""
    UNKNOWN = "unknown"
    """A write may have had its effect, or may still have."""
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """An allocation to be written to a claim, and who uses it."""

    claim: Claim
    allocation: ClaimAllocation
    consumers: tuple[Consumer, ...]
    is_guarded: bool = False

    @property
    def digest(self) -> str:
        """What the annotation says of it."""
        return digest_allocation(self.allocation.devices.results)


def choose_placing_step(claim: Claim, want: Placing) -> Step | End:
    """The next write of a placement."""
    if claim.metadata.uid != want.claim.metadata.uid:
        return End.GONE
    allocation = claim.status.allocation
    if allocation is not None:
        is_this = is_ours(claim) and digest_allocation(allocation.devices.results) == want.digest
        return End.DONE if is_this else End.TAKEN
    if claim.metadata.deletion_timestamp is not None:
        return End.GONE
    is_marked = read_mark(claim) == want.digest and FINALIZER in claim.metadata.finalizers
    return Step.ALLOCATE if is_marked else Step.MARK


def choose_tidying_step(claim: Claim) -> Step | End:
    """Whether another's allocation carries our mark: kube-scheduler was quicker than our second write."""
    is_ours_to_be = ALLOCATION_ANNOTATION in claim.metadata.annotations and not is_ours(claim)
    return Step.UNMARK if is_ours_to_be and claim.status.allocation is not None else End.DONE


def choose_settling_step(claim: Claim, before: Claim) -> Step | End:
    """Whether a guard is still to be removed from the allocation of ours that it had ``before``."""
    if not is_ours(claim) or read_mark(claim) != read_mark(before):
        return End.TAKEN
    return Step.SETTLE if has_guard(claim) else End.DONE


def choose_unmarking_step(claim: Claim) -> Step | End:
    """Whether a claim is as a leader leaves it that dies between two writes: marked, kept, and not allocated.

    kube-controller-manager takes the finalizer when it frees a claim, and leaves the annotation, which then says nothing.
    """
    meta = claim.metadata
    is_marked = ALLOCATION_ANNOTATION in meta.annotations and FINALIZER in meta.finalizers
    is_left = is_marked and claim.status.allocation is None and meta.deletion_timestamp is None
    return Step.UNMARK if is_left else End.DONE


def choose_withdrawing_step(claim: Claim, before: Claim) -> Step | End:
    """Whether pods are still to leave ``reservedFor`` before the allocation is cleared that it had ``before``."""
    end = _find_end(claim, before)
    if end is not None:
        return end
    return Step.WITHDRAW if any(is_pod(each) for each in claim.status.reserved_for) else End.DONE


def choose_clearing_step(claim: Claim, before: Claim, gone: frozenset[str]) -> Step | End:
    """The next write of a take-back whose pods were withdrawn. ``gone`` are uids of pods that need not be: there are none."""
    end = _find_end(claim, before)
    if end is not None:
        is_cleared = end is End.DONE and read_mark(claim) == read_mark(before)
        return Step.UNMARK if is_cleared and claim.metadata.uid == before.metadata.uid else end
    came = (each for each in claim.status.reserved_for if is_pod(each) and each.uid not in gone)
    return End.IN_USE if any(came) else Step.CLEAR


def _find_end(claim: Claim, before: Claim) -> End | None:
    """What there is to say before any write: it is free already, it is somebody else's, something else than a pod uses it."""
    if claim.metadata.uid != before.metadata.uid or claim.status.allocation is None:
        return End.DONE
    if not is_ours(claim) or read_mark(claim) != read_mark(before):
        return End.TAKEN
    others = (each for each in claim.status.reserved_for if not is_guard(each) and not is_pod(each))
    return End.IN_USE if any(others) else None


def is_in_use(pod: Pod | None, uid: str) -> bool:
    """Whether a pod that ``reservedFor`` names runs, or is about to, with its claims."""
    return pod is not None and pod.metadata.uid == uid and bool(pod.spec.node_name) and pod.status.phase not in ENDED


def build_mark(claim: Claim, digest: str) -> dict[str, Any]:
    """A merge patch of the main object: our annotation, and the finalizer beside those that are there."""
    finalizers = list(dict.fromkeys((*claim.metadata.finalizers, FINALIZER)))
    return _patch(claim, {"annotations": {ALLOCATION_ANNOTATION: digest}, "finalizers": finalizers})


def build_unmark(claim: Claim) -> dict[str, Any]:
    """A merge patch of the main object: neither annotation nor finalizer, as kube-controller-manager leaves what it freed."""
    finalizers = [each for each in claim.metadata.finalizers if each != FINALIZER]
    return _patch(claim, {"annotations": {ALLOCATION_ANNOTATION: None}, "finalizers": finalizers})


def build_tidied(claim: Claim) -> dict[str, Any]:
    """A merge patch of the main object: no mark of ours; whoever allocated it needs the finalizer, too."""
    return _patch(claim, {"annotations": {ALLOCATION_ANNOTATION: None}, "finalizers": list(claim.metadata.finalizers)})


def build_allocated(claim: Claim, want: Placing) -> dict[str, Any]:
    """The claim with its status, to be put whole: a patch would lose what is null in a config's parameters."""
    guard = (build_guard(claim.metadata.uid),) if want.is_guarded else ()
    status = {"allocation": want.allocation, "reservedFor": merge_consumers(guard, want.consumers)}
    return {"metadata": _identity(claim), "status": status}


def build_reserved(claim: Claim, consumers: Iterable[Consumer]) -> dict[str, Any]:
    """A merge patch of the status: these consumers instead of those that are there."""
    return _patch(claim, {}, status={"reservedFor": list(consumers)})


def build_cleared(claim: Claim) -> dict[str, Any]:
    """A merge patch of the status: no allocation, nobody reserved. The server drops the devices' status by itself."""
    return _patch(claim, {}, status={"allocation": None, "reservedFor": None})


def plan_withdrawn(claim: Claim) -> tuple[Consumer, ...]:
    """Only the guard: kube-controller-manager keeps a claim that has one, and kube-scheduler keeps off it.

    To a claim that is being deleted nothing may be added.
    """
    return () if claim.metadata.deletion_timestamp is not None else (build_guard(claim.metadata.uid),)


def plan_settled(claim: Claim, users: Iterable[Consumer]) -> tuple[Consumer, ...]:
    """Who is there and who waits for it, without the guard. To a claim that is being deleted nobody may be added."""
    there = [each for each in claim.status.reserved_for if not is_guard(each)]
    return merge_consumers(there, () if claim.metadata.deletion_timestamp is not None else users)


def _identity(claim: Claim) -> dict[str, str]:
    meta = claim.metadata
    return {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "resourceVersion": meta.resource_version}


def _patch(claim: Claim, metadata: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": claim.metadata.resource_version, "uid": claim.metadata.uid} | metadata, **more}
