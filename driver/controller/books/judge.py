"""Whose a claim is, and what it asks for: ours, kube-scheduler's, or nobody's before somebody mends it.

A claim is ours if it is read without a rest, every request can be answered by devices of the driver, and one of these devices
at least is the controller's (design section 6). What a claim and its classes say is worked out once; what the selectors reach
follows the devices.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from driver.allocator import problem as asked
from driver.allocator.cel_engine import CelEngine
from driver.allocator.problem import Alternative, ClaimAsk, ProblemFault, build_problem
from driver.allocator.taints import is_tolerated
from driver.api.claim_spec_v1 import ClaimSpec, DeviceRequest, SpecFault, decode_claim_spec
from driver.api.fence import ALLOCATOR_KEY, CONTROLLER, FENCE_EFFECT, TOPOLOGY_CLASS
from driver.api.resource_v1 import Device, Taint
from driver.api.topology_policy import Mode
from driver.controller.books.classes import ClassBook
from driver.controller.books.effort import Effort
from driver.controller.books.reach import Reach, Reached
from driver.controller.objects.model import Claim
from driver.controller.objects.ownership import EXTENDED_RESOURCE_ANNOTATION

_MOST_READINGS = 20_000
_FENCED = Device(name="x", taints=(Taint(key=ALLOCATOR_KEY, value=CONTROLLER, effect=FENCE_EFFECT),))


class Whose(enum.Enum):
    """Who is to act on a claim."""

    OURS = "ours"
    THEIRS = "theirs"
    """kube-scheduler allocates it, whatever becomes of the pod's other claims."""
    NOBODYS = "nobody's"
    """A pod that needs it cannot be served as things are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a claim says, whatever devices there are: a problem, or why there is none."""

    ask: ClaimAsk | None = None
    part: asked.Claim | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Whose a claim is and why; ``is_fault`` where somebody has to mend something. ``reading`` is complete where it is ours."""

    whose: Whose
    reading: Reading
    reason: str = ""
    is_fault: bool = False
    is_foreign: bool = False
    """It asks for nothing that the driver has."""
    is_onlooker: bool = False
    """It only looks on, at devices that draw on counters: ours once kube-scheduler has found no place for its pods."""


class Judge:
    """Judges claims as things are now. Not thread-safe: one owner."""

    def __init__(self, driver: str, classes: ClassBook, engine: CelEngine, reach: Reach, effort: Effort) -> None:
        self._driver = driver
        self._engine = engine
        self._classes = classes
        self._reach = reach
        self._effort = effort
        self._own_refusals = 0
        self._readings: dict[str, Reading] = {}
        self._by_text: dict[bytes, Reading] = {}
        self._classes_seen = -1
        self._parts: dict[asked.Claim, asked.Claim] = {}

    def follow(self) -> tuple[int, int, int]:
        """Another value after each change that may change a judgement, beside the claim's own."""
        followed = self._reach.follow()
        # one that is refused while its claim is judged concerns that claim; of one that was known to be sound all are told anew
        return self._classes.version, followed, self._engine.refusals - self._own_refusals

    def judge(self, claim: Claim) -> Judgement:
        """The claim as it is, with classes and devices as they are.

        Raises:
            NotYet: to find out what it reaches takes longer than may be; what was found out is kept.
        """
        before = self._engine.refusals
        try:
            return self._judge(claim)
        finally:
            self._own_refusals += self._engine.refusals - before

    def _judge(self, claim: Claim) -> Judgement:
        name = f"claim {claim.metadata.name}"
        reading = self._read(claim)
        if claim.metadata.deletion_timestamp is not None:
            return _nobodys(reading, f"{name} is being deleted")
        if claim.metadata.annotations.get(EXTENDED_RESOURCE_ANNOTATION) == "true":
            return _nobodys(reading, f"{name} is for an extended resource: kube-scheduler makes and allocates such claims")
        if reading.fault:
            return _nobodys(reading, reading.fault, is_fault=True)
        return self._judge_reach(reading, name)

    def _judge_reach(self, reading: Reading, name: str) -> Judgement:
        requests = () if reading.part is None else reading.part.requests
        if not requests:
            return Judgement(whose=Whose.THEIRS, reading=reading, reason=f"{name} asks for nothing")
        reached, fault = self._count_all(requests)
        fault = fault or self._find_failing(requests, reached)
        if fault:
            return _nobodys(reading, f"{name}: {fault}", is_fault=True)
        foreign = [
            request for request, found in zip(requests, reached, strict=True) if not any(each.matching for each in found)
        ]
        if len(foreign) == len(requests):
            reason = f"no device of {self._driver} matches request {foreign[0].name} of {name}"
            return Judgement(whose=Whose.THEIRS, reading=reading, reason=reason, is_foreign=True)
        if foreign:
            reason = f"{name} mixes drivers: no device of {self._driver} matches request {foreign[0].name}"
            return _nobodys(reading, reason, is_fault=True)
        reason = _find_unfenced(requests, reached, name) or _find_climbing(requests, name)
        return _judge_theirs(reading, reached, reason) if reason else self._judge_policy(reading, requests, name)

    def _count_all(self, requests: tuple[asked.Request, ...]) -> tuple[list[list[Reached]], str]:
        """What each alternative of each request reaches; or the first selector that is broken, before others are looked at."""
        counted: list[list[Reached]] = []
        for request in requests:
            counted.append([])
            for alternative in request.alternatives:
                fault = self._find_selector_fault(alternative)
                if not fault:
                    counted[-1].append(self._reach.count(alternative.selectors))
                    fault = self._find_selector_fault(alternative)  # that it costs too much may be known only now
                if fault:
                    return counted, fault
        return counted, ""

    def _find_failing(self, requests: tuple[asked.Request, ...], reached: list[list[Reached]]) -> str:
        """A request that matches nothing, because its selector fails on every device that its class selects."""
        for request, found in zip(requests, reached, strict=True):
            if not any(each.matching for each in found):
                for alternative, each in zip(request.alternatives, found, strict=True):
                    if each.failing:
                        fault = self._reach.describe_failure(alternative.selectors)
                        return f"request {alternative.name} matches no device: a selector fails on {fault}"
        return ""

    def _judge_policy(self, reading: Reading, requests: tuple[asked.Request, ...], name: str) -> Judgement:
        alternatives = [each for request in requests for each in request.alternatives]
        if reading.part is not None and reading.part.policy.mode is Mode.REQUIRED:
            leaking = next((each for each in alternatives if self._reach.leaks(each.selectors)), None)
            if leaking is not None:
                return _nobodys(reading, _describe_leak(name, leaking), is_fault=True)
        return Judgement(whose=Whose.OURS, reading=reading)

    def _read(self, claim: Claim) -> Reading:
        if self._classes_seen != self._classes.version or len(self._readings) > _MOST_READINGS:
            self._classes_seen = self._classes.version
            self._readings.clear()
            self._by_text.clear()
            self._parts.clear()
        uid = claim.metadata.uid
        known = self._readings.get(uid)
        if known is None:
            known = self._readings[uid] = self._read_anew(claim)
        return known

    def _read_anew(self, claim: Claim) -> Reading:
        """Claims of one template have one text, which is read once."""
        text = bytes(claim.spec)
        alike = self._by_text.get(text)
        if alike is not None and alike.ask is not None:
            ask = ClaimAsk(name=claim.metadata.name, uid=claim.metadata.uid, spec=alike.ask.spec)
            return Reading(ask=ask, part=alike.part)
        reading = self._build_reading(claim)
        if reading.ask is not None:
            self._by_text[text] = reading
        return reading

    def _build_reading(self, claim: Claim) -> Reading:
        name = claim.metadata.name
        try:
            spec = decode_claim_spec(bytes(claim.spec))
            ask = ClaimAsk(name=name, uid=claim.metadata.uid, spec=spec)
            fault = self._find_class_fault(spec)
            if fault:
                return Reading(fault=f"claim {name}: {fault}")
            (part,) = build_problem([ask], self._classes.specs, self._driver).claims
        except SpecFault as err:
            return Reading(fault=f"claim {name}: {err}")
        except ProblemFault as err:
            return Reading(fault=str(err))
        return Reading(ask=ask, part=self._parts.setdefault(part, part))

    def _find_class_fault(self, spec: ClaimSpec) -> str:
        for name in _list_classes(spec):
            if name in self._classes.faults:
                return f"DeviceClass {name}: {self._classes.faults[name]}"
        return ""

    def _find_selector_fault(self, alternative: Alternative) -> str:
        """A selector that does not compile, or was found to cost too much."""
        for expression in alternative.selectors:
            self._effort.check()  # to compile one takes its time too
            fault = self._engine.find_fault(expression)
            if fault is not None:
                return f"request {alternative.name}: a selector of its own or of its class is broken: {fault}"
        return ""


def _list_classes(spec: ClaimSpec) -> Iterator[str]:
    for request in spec.devices.requests:
        yield from _list_request_classes(request)


def _list_request_classes(request: DeviceRequest) -> Iterator[str]:
    if request.exactly is not None:
        yield request.exactly.device_class_name
    yield from (each.device_class_name for each in request.first_available)


def _find_unfenced(requests: tuple[asked.Request, ...], reached: list[list[Reached]], name: str) -> str:
    for request, found in zip(requests, reached, strict=True):
        if not any(each.fenced for each in found):
            return f"request {request.name} of {name} matches only devices that are kube-scheduler's"
    return ""


def _find_climbing(requests: tuple[asked.Request, ...], name: str) -> str:
    alternatives = (each for request in requests for each in request.alternatives)
    if all(each.is_admin and is_tolerated(_FENCED, each.tolerations, None) for each in alternatives):
        return f"{name} has admin access and tolerates the fence: kube-scheduler allocates it (R21)"
    return ""


def _judge_theirs(reading: Reading, reached: list[list[Reached]], reason: str) -> Judgement:
    """kube-scheduler's; but what takes nothing of anybody (admin access) may be given by us as well.

    Where devices draw on counters kube-scheduler wants what they draw to be free (as of 1.37), and so never serves such a claim
    on a node that is in use.
    """
    alternatives = () if reading.part is None else (each for request in reading.part.requests for each in request.alternatives)
    if all(each.is_admin for each in alternatives) and any(each.counted for found in reached for each in found):
        later = f"{reason}; where kube-scheduler finds no place the controller does"
        return Judgement(whose=Whose.OURS, reading=reading, reason=later, is_onlooker=True)
    return Judgement(whose=Whose.THEIRS, reading=reading, reason=reason)


def _describe_leak(name: str, alternative: Alternative) -> str:
    return (
        f"{name}: its policy is required, but kube-scheduler may serve request {alternative.name} without looking at it; "
        f"use DeviceClass {TOPOLOGY_CLASS}, or a selector that demands allocator == 'controller'"
    )


def _nobodys(reading: Reading, reason: str, *, is_fault: bool = False) -> Judgement:
    return Judgement(whose=Whose.NOBODYS, reading=reading, reason=reason, is_fault=is_fault)
