"""Who chooses in a simulation: our controller, or one of those that it is compared with."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from driver.allocator.decide import explain, place
from driver.allocator.device_node import DeviceNode
from driver.allocator.fleet import Fleet, Holding
from driver.allocator.hold import HoldRule, Holds, Waiting
from driver.allocator.miss import Miss
from driver.allocator.problem import Claim, ClaimAsk, Problem, build_problem
from driver.allocator.search import Found, NodeSearch
from driver.allocator.slots import Pick
from driver.allocator.statics import build_statics
from driver.allocator.tables import positions_of
from driver.api.claim_spec_v1 import (
    CelSelector,
    ClaimSpec,
    DeviceClaim,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    ExactRequest,
)
from driver.cli.simulation.arrivals import Arrival
from driver.cli.simulation.fleets import DRIVER
from driver.cli.simulation.report import Links

_LATER_S = 0.001


def build_pod_problem(pod: Arrival) -> Problem:
    """The problem of a pod's one claim."""
    selectors = () if pod.selector is None else (DeviceSelector(cel=CelSelector(expression=pod.selector)),)
    request = DeviceRequest(name="gpus", exactly=ExactRequest(device_class_name=DRIVER, count=pod.count, selectors=selectors))
    constraints = () if pod.match_attribute is None else (DeviceConstraint(match_attribute=pod.match_attribute),)
    spec = ClaimSpec(devices=DeviceClaim(requests=(request,), constraints=constraints))
    problem = build_problem([ClaimAsk(name=pod.name, uid=pod.name, spec=spec)], {DRIVER: DeviceClassSpec()}, DRIVER)
    return Problem(claims=tuple(_with_policy(claim, pod) for claim in problem.claims))


def _with_policy(claim: Claim, pod: Arrival) -> Claim:
    return replace(claim, policy=pod.policy)


class _Placed:
    """Bookkeeping that all choosers share: which devices a pod holds."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._holdings: dict[str, tuple[Holding, ...]] = {}
        self._problems: dict[tuple[object, ...], Problem] = {}
        self._placed: Counter[int] = Counter()
        self._ideal: Counter[int] = Counter()
        self._nvlink: Counter[int] = Counter()

    def problem_of(self, pod: Arrival) -> Problem:
        """The pod's problem; equal pods have the same object."""
        key = (pod.count, pod.policy, pod.match_attribute, pod.selector)
        known = self._problems.get(key)
        if known is None:
            known = self._problems[key] = build_pod_problem(pod)
        return known

    def explain(self, pod: Arrival) -> Miss:
        """Why the pod fits nowhere now, in numbers."""
        return explain(self.fleet, self.problem_of(pod))

    def take(self, pod: Arrival, node: str, picks: Sequence[Pick]) -> None:
        """The pod has these devices."""
        ids = self.fleet.nodes[node].ids
        holdings = tuple(Holding(device=ids[at]) for pick in picks for at in positions_of(pick.mask))
        self._holdings[pod.name] = holdings
        self.fleet.hold(holdings)
        if pod.count > 1:
            self._judge(self.fleet.nodes[node], pod.count, picks)

    def remove(self, pod: Arrival) -> None:
        """The pod has ended."""
        self.fleet.release(self._holdings.pop(pod.name))

    def count_links(self) -> dict[int, Links]:
        """How good the sets are that were placed, by size."""
        return {
            size: Links(placed=placed, ideal=self._ideal[size], nvlink=self._nvlink[size])
            for size, placed in self._placed.items()
        }

    def _judge(self, node: DeviceNode, count: int, picks: Sequence[Pick]) -> None:
        tables = node.shape.tables
        mask = sum(pick.mask for pick in picks) & tables.full
        self._placed[count] += 1
        self._ideal[count] += tables.loss(mask) == (0, 0)
        self._nvlink[count] += tables.is_nvlink_ring(mask)


class ControllerChooser(_Placed):
    """Our controller: the allocator, with or without the hold rule."""

    def __init__(self, fleet: Fleet, holds: Holds | None) -> None:
        super().__init__(fleet)
        self._holds = holds

    def before(self, waiting: Sequence[Arrival], now_s: float) -> float | None:
        """The hold rule looks at the queue; it wants to look again when somebody starves or loses patience."""
        if self._holds is None:
            return None
        claims = [self._waiting(pod, now_s) for pod in waiting]
        self._holds.update(self.fleet, claims)
        change_s = self._holds.next_change_s(claims)
        # A moment later than exactly then, or rounding could make it wake up just before, again and again.
        return None if change_s is None else now_s + change_s + _LATER_S

    def kind(self, pod: Arrival, now_s: float) -> object:
        """Pods that ask for the same; with the hold rule also by whether they still have patience."""
        problem = self.problem_of(pod)
        return (id(problem), *(self._holds.patience(self._waiting(pod, now_s)) if self._holds is not None else ()))

    def place(self, pod: Arrival, now_s: float) -> str | None:
        """Where the allocator puts it."""
        problem = self.problem_of(pod)
        holds = self._holds
        if holds is None:
            placement = place(self.fleet, problem)
        else:
            claim = self._waiting(pod, now_s)
            placement = place(
                self.fleet,
                problem,
                allows=lambda node: holds.allows(claim, node),
                accepts=lambda found: holds.accepts(self.fleet, claim, found),
            )
        if placement is None:
            return None
        self.take(pod, placement.node, placement.picks)
        return placement.node

    def _waiting(self, pod: Arrival, now_s: float) -> Waiting:
        return Waiting(key=pod.name, problem=self.problem_of(pod), count=pod.count, waited_s=now_s - pod.at_s)


class FirstFitChooser(_Placed):
    """As kube-scheduler does it: a node by a rule that knows nothing of GPUs, and there the first devices that fit."""

    def __init__(self, fleet: Fleet, order: Callable[[Fleet], Sequence[str]]) -> None:
        super().__init__(fleet)
        self._order = order

    def before(self, _waiting: Sequence[Arrival], _now_s: float) -> float | None:
        """Nothing to prepare."""
        return None

    def kind(self, pod: Arrival, _now_s: float) -> object:
        """Pods that ask for the same."""
        return id(self.problem_of(pod))

    def place(self, pod: Arrival, _now_s: float) -> str | None:
        """The first node in the order that has room."""
        problem = self.problem_of(pod)
        for name in self._order(self.fleet):
            taken = self.fleet.taken(name)
            node = self.fleet.nodes[name]
            if len(node.ids) - taken.mask.bit_count() < pod.count:
                continue
            statics = build_statics(node, self.fleet.shape_id(node.shape), problem.aspects())
            answer = NodeSearch(problem, statics, taken, first_fit=node.first_fit).run()
            if isinstance(answer, Found):
                self.take(pod, name, answer.picks)
                return name
        return None


def build_chooser(policy: str, fleet: Fleet, *, seed: int, rule: HoldRule | None) -> ControllerChooser | FirstFitChooser:
    """The chooser of a policy: one of ``POLICIES``."""
    if policy == "pack":
        return ControllerChooser(fleet, None if rule is None else Holds(rule))
    if policy == "spread":
        return FirstFitChooser(fleet, _emptiest_first)
    if policy == "first-fit":
        return FirstFitChooser(fleet, lambda fleet: list(fleet.nodes))
    numbers = random.Random(seed)  # noqa: S311  (a simulation wants numbers that come again)
    return FirstFitChooser(fleet, lambda fleet: numbers.sample(list(fleet.nodes), len(fleet.nodes)))


def _emptiest_first(fleet: Fleet) -> list[str]:
    return sorted(fleet.nodes, key=lambda name: (fleet.taken(name).mask.bit_count() - len(fleet.nodes[name].ids), name))
