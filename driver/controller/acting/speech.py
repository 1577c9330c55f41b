"""What people are told, as events on pods and claims: why something waits, in numbers, and what was done.

A claim that waits is spoken of when the numbers change, and at most once a minute (R31): claims have no conditions of their
own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from driver.api.resource_v1 import GROUP_VERSION
from driver.controller.books.demands import Demand
from driver.controller.deciding.decision import LeaveAlone
from driver.controller.objects.model import Claim, Pod
from driver.kube.events import ObjectReference

QUIET_S = 60.0
"""A claim that waits is not spoken of more often."""
_ACTION_WAIT = "Allocate"
_ACTION_BACK = "Deallocate"
_MOST_OBJECTS = 20
"""Events for one demand: a claim may be shared by hundreds of pods."""


class Recorder(Protocol):
    """``EventRecorder``, as far as it is used here."""

    def record(self, about: ObjectReference, reason: str, note: str, *, action: str, is_warning: bool = False) -> None:
        """Say that something happened."""


@dataclass(slots=True)
class _Said:
    text: str
    at_s: float


class Speech:
    """For the decision thread. Times are of the steady clock."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._said: dict[str, _Said] = {}

    def is_due(self, demand: Demand, now_s: float) -> bool:
        """Whether it is time to look again at why a demand waits."""
        said = self._said.get(demand.key)
        return said is None or now_s - said.at_s >= QUIET_S

    def say_waits(self, demand: Demand, text: str, now_s: float) -> None:
        """It waits, for this reason. Said if the reason is another than the last time."""
        said = self._said.get(demand.key)
        self._said[demand.key] = _Said(text, now_s)
        if said is None or said.text != text:
            self._tell(_objects(demand.pods, demand.claims), "ClaimWaiting", text, _ACTION_WAIT)

    def say_left_alone(self, left: LeaveAlone) -> None:
        """It is not for us. Only what somebody has to mend is an event: the rest is kube-scheduler's daily work."""
        self._said.pop(left.demand.key, None)
        if left.is_fault:
            about = _objects(left.demand.pods, left.demand.claims)
            self._tell(about, "ClaimLeftAlone", left.reason, _ACTION_WAIT, is_warning=True)

    def say_placed(self, demand: Demand, node: str, devices: Sequence[Sequence[str]]) -> None:
        """Its claims are allocated: ``devices`` of each. Said of the pods alone: a claim has it in its status."""
        self._said.pop(demand.key, None)
        every = [name for names in devices for name in names]
        self._tell(map(_pod, demand.pods), "ClaimPlaced", _list_devices(every, node), _ACTION_WAIT)

    def say_refused(self, claim: Claim, text: str) -> None:
        """The server does not store what was decided."""
        self._tell([refer_to_claim(claim)], "ClaimNotWritten", text, _ACTION_WAIT, is_warning=True)

    def say_taken_back(self, claim: Claim, pods: Iterable[Pod], text: str) -> None:
        """Its allocation is no more."""
        self._tell([*map(_pod, pods), refer_to_claim(claim)], "ClaimTakenBack", text, _ACTION_BACK, is_warning=True)

    def say_double(self, claims: Iterable[Claim], text: str) -> None:
        """A device is in several claims."""
        self._tell([refer_to_claim(each) for each in claims], "DeviceInTwoClaims", text, _ACTION_BACK, is_warning=True)

    def keep_only(self, keys: frozenset[str]) -> None:
        """Forget what was said of demands that are no more."""
        for key in self._said.keys() - keys:
            del self._said[key]

    def _tell(self, about: Iterable[ObjectReference], reason: str, text: str, action: str, *, is_warning: bool = False) -> None:
        for each in list(about)[:_MOST_OBJECTS]:
            self._recorder.record(each, reason, text, action=action, is_warning=is_warning)


def _list_devices(names: Sequence[str], node: str) -> str:
    return f"{len(names)} device{'s' if len(names) != 1 else ''} on node {node}: {', '.join(sorted(names))}"


def _objects(pods: Iterable[Pod], claims: Iterable[Claim]) -> list[ObjectReference]:
    return [*map(_pod, pods), *map(refer_to_claim, claims)]


def _pod(pod: Pod) -> ObjectReference:
    meta = pod.metadata
    return ObjectReference(api_version="v1", kind="Pod", name=meta.name, namespace=meta.namespace, uid=meta.uid)


def refer_to_claim(claim: Claim) -> ObjectReference:
    """The claim, for an event about it."""
    meta = claim.metadata
    return ObjectReference(
        api_version=GROUP_VERSION, kind="ResourceClaim", name=meta.name, namespace=meta.namespace, uid=meta.uid
    )
