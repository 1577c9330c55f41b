"""What one pod's claims ask for, resolved against DeviceClasses: everything that a decision needs beside the fleet.

Two pods that ask for the same have equal problems, whatever their claims are called, so that what was worked out for one serves
the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from driver.api.claim_spec_v1 import (
    ALL,
    EXACT_COUNT,
    CapacityRequirements,
    ClaimSpec,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    ExactRequest,
    SubRequest,
    Toleration,
)
from driver.api.quantity import parse_quantity
from driver.api.resource_v1 import ALLOCATION_RESULTS_MAX, OpaqueConfig
from driver.api.topology_policy import Policy, decode_policy
from driver.errors import ConfigInvalid


class Aspect(NamedTuple):
    """What of an alternative has to be known to see a node as it does."""

    selectors: tuple[str, ...]
    tolerations: tuple[Toleration, ...]
    capacity: tuple[tuple[str, Fraction], ...]
    is_all: bool
    is_admin: bool


Aspects = tuple[tuple[Aspect, ...], tuple[str, ...]]
"""Of all alternatives, and the attributes of all constraints."""


class ProblemFault(ValueError):
    """The claims cannot be answered as they are, whatever is free; the text names claim, request and what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAsk:
    """A claim to be allocated. ``name`` is for messages, ``uid`` makes share ids."""

    name: str
    uid: str
    spec: ClaimSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One way to serve a request: a request of its own, or one of ``firstAvailable``."""

    name: str
    """As results name it: ``gpus``, ``gpus/tight``."""
    class_name: str
    selectors: tuple[str, ...]
    """The class's expressions, then the request's."""
    count: int
    """How many devices; 0 is all that match."""
    is_admin: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, Fraction], ...] = ()

    @property
    def is_all(self) -> bool:
        """All devices of a node that match, and at least one."""
        return self.count == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request with its alternatives, best first."""

    name: str
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """Equal or distinct values of an attribute over the devices of some requests; none named means all."""

    requests: frozenset[str]
    attribute: str
    is_distinct: bool

    def covers(self, alternative: Alternative) -> bool:
        """True where devices of this alternative count."""
        base = alternative.name.partition("/")[0]
        return not self.requests or base in self.requests or alternative.name in self.requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim as the search sees it."""

    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...]
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Claims of one pod, to be placed on one node together. Equal problems have equal answers."""

    claims: tuple[Claim, ...]

    def alternatives(self) -> Iterator[Alternative]:
        """All alternatives of all requests, in order."""
        for claim in self.claims:
            for request in claim.requests:
                yield from request.alternatives

    def aspects(self) -> Aspects:
        """What has to be known of nodes to answer it. Problems that differ in counts and policies alone have the same."""
        return (
            tuple(
                Aspect(each.selectors, each.tolerations, each.capacity, each.is_all, each.is_admin)
                for each in self.alternatives()
            ),
            tuple(each.attribute for claim in self.claims for each in claim.constraints),
        )

    @property
    def packing_is_spread(self) -> bool:
        """The first claim speaks for the pod."""
        return bool(self.claims) and self.claims[0].policy.packing.value == "spread"


def build_problem(asks: Sequence[ClaimAsk], classes: Mapping[str, DeviceClassSpec], driver: str) -> Problem:
    """The problem of these claims; ``driver`` is whose policies are read.

    Raises:
        ProblemFault: a class is missing, a policy is wrong, or a claim asks for what no allocation can hold.
    """
    return Problem(claims=tuple(_build_claim(ask, classes, driver) for ask in asks))


def _build_claim(ask: ClaimAsk, classes: Mapping[str, DeviceClassSpec], driver: str) -> Claim:
    requests = tuple(_build_request(each, classes, f"claim {ask.name}") for each in ask.spec.devices.requests)
    least = sum(min((each.count or 1) for each in request.alternatives) for request in requests)
    if least > ALLOCATION_RESULTS_MAX:
        raise ProblemFault(f"claim {ask.name}: asks for {least} devices, an allocation holds at most {ALLOCATION_RESULTS_MAX}")
    return Claim(
        requests=requests,
        constraints=tuple(_build_constraint(each, ask.name) for each in ask.spec.devices.constraints),
        policy=_choose_policy(ask, requests, classes, driver),
    )


def _build_request(request: DeviceRequest, classes: Mapping[str, DeviceClassSpec], where: str) -> Request:
    where = f"{where}: request {request.name}"
    if (request.exactly is None) == (not request.first_available):
        raise ProblemFault(f"{where}: either exactly or firstAvailable is needed")
    if request.exactly is not None:
        only = _build_alternative(request.exactly, request.name, classes, where)
        return Request(name=request.name, alternatives=(only,))
    each = (_build_alternative(sub, f"{request.name}/{sub.name}", classes, where) for sub in request.first_available)
    return Request(name=request.name, alternatives=tuple(each))


def _build_alternative(
    ask: ExactRequest | SubRequest, name: str, classes: Mapping[str, DeviceClassSpec], where: str
) -> Alternative:
    device_class = classes.get(ask.device_class_name)
    if device_class is None:
        raise ProblemFault(f"{where}: DeviceClass {ask.device_class_name} does not exist")
    if ask.allocation_mode not in (EXACT_COUNT, ALL):
        raise ProblemFault(f"{where}: allocationMode {ask.allocation_mode} is not known; {EXACT_COUNT} and {ALL} are")
    if ask.allocation_mode == EXACT_COUNT and ask.count < 1:
        raise ProblemFault(f"{where}: count {ask.count}: at least 1 is needed")
    return Alternative(
        name=name,
        class_name=ask.device_class_name,
        selectors=(*_expressions(device_class.selectors), *_expressions(ask.selectors)),
        count=0 if ask.allocation_mode == ALL else ask.count,
        is_admin=isinstance(ask, ExactRequest) and bool(ask.admin_access),
        tolerations=ask.tolerations,
        capacity=_amounts(ask.capacity, where),
    )


def _expressions(selectors: Iterable[DeviceSelector]) -> tuple[str, ...]:
    return tuple(each.cel.expression for each in selectors)


def _amounts(capacity: CapacityRequirements | None, where: str) -> tuple[tuple[str, Fraction], ...]:
    if capacity is None:
        return ()
    try:
        return tuple(sorted((name, parse_quantity(text)) for name, text in capacity.requests.items()))
    except ValueError as err:
        raise ProblemFault(f"{where}: capacity: {err}") from err


def _build_constraint(constraint: DeviceConstraint, claim: str) -> Constraint:
    attribute = constraint.match_attribute or constraint.distinct_attribute
    if attribute is None or (constraint.match_attribute and constraint.distinct_attribute):
        raise ProblemFault(f"claim {claim}: a constraint needs matchAttribute or distinctAttribute")
    return Constraint(
        requests=frozenset(constraint.requests), attribute=attribute, is_distinct=constraint.match_attribute is None
    )


def _choose_policy(ask: ClaimAsk, requests: Sequence[Request], classes: Mapping[str, DeviceClassSpec], driver: str) -> Policy:
    """The last policy wins; a claim's own beats its classes'."""
    names = dict.fromkeys(each.class_name for request in requests for each in request.alternatives)
    configs = [(f"DeviceClass {name}", config.opaque) for name in names for config in classes[name].config]
    configs += [(f"claim {ask.name}", config.opaque) for config in ask.spec.devices.config]
    policy = Policy()
    for where, config in configs:
        policy = _read_policy(config, driver, where) or policy
    return policy


def _read_policy(config: OpaqueConfig | None, driver: str, where: str) -> Policy | None:
    if config is None or config.driver != driver:
        return None
    try:
        return decode_policy(bytes(config.parameters), where)
    except ConfigInvalid as err:
        raise ProblemFault(str(err)) from err
