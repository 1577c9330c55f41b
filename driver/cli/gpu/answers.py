"""Node by node: why what waits does not go there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import msgspec

from driver.allocator.choices import split
from driver.allocator.decide import explain, place
from driver.allocator.device_node import DeviceNode
from driver.allocator.miss import Miss
from driver.allocator.problem import Alternative
from driver.allocator.problem import Claim as AskedClaim
from driver.allocator.tables import positions_of
from driver.api.fence import ALLOCATOR_KEY, CONTROLLER, DRAINING
from driver.api.topology_policy import Mode, Scope
from driver.cli.gpu.fragments import find_allocator
from driver.cli.gpu.holders import Holders
from driver.cli.gpu.reading import Reading
from driver.cli.gpu.sets import GpuMasks
from driver.cli.gpu.views import NodeAnswer, WayView
from driver.cli.gpu.ways import Candidate, choose_ways
from driver.cli.gpu.words import count, describe_span_s, join_names
from driver.controller.books.mirror import Cluster
from driver.controller.deciding.decision import build_waiting
from driver.controller.deciding.pod_fit import PodAsk, list_misfits
from driver.controller.deciding.question import Question
from driver.controller.objects.life import parse_time_s
from driver.controller.writing.fence import read_drain

_MOST_WAYS = 50
"""Nodes for which it is worked out who is in the way: those where the fewest devices are missing."""
_ORDER = ("fits", "held", "pod", "devices", "none", "controller", "draining", "scheduler", "incomplete")


def build_bare_answers(cluster: Cluster, now_s: float, fit: PodAsk | None = None) -> tuple[NodeAnswer, ...]:
    """Whose devices each node has, for what is not the controller's to place; and why the pods do not fit there."""
    return _in_order([_build_bare(cluster, name, now_s, fit) for name in _list_nodes(cluster)])


def build_answers(asker: Asker) -> tuple[NodeAnswer, ...]:
    """What every node says to the question, the nearest first."""
    holders = Holders(asker.cluster)
    answers = {name: asker.ask(name) for name in _list_nodes(asker.cluster)}
    lacking = [each for each in answers.values() if each.verdict == "devices" and each.need > each.largest]
    for each in sorted(lacking, key=lambda each: (each.need - each.largest, each.node))[:_MOST_WAYS]:
        answers[each.node] = msgspec.structs.replace(each, ways=asker.find_ways(each, holders))
    return _in_order(list(answers.values()))


@dataclass(slots=True, kw_only=True)
class Asker:
    """Asks nodes; those in one bucket have the same devices free and give the same answer about them."""

    reading: Reading
    question: Question
    fit: PodAsk
    now_s: float
    _known: dict[object, tuple[bool, Miss]] = field(default_factory=dict)

    @property
    def cluster(self) -> Cluster:
        """What the nodes are of."""
        return self.reading.cluster

    def ask(self, name: str) -> NodeAnswer:
        """What one node says."""
        bare = _build_bare(self.cluster, name, self.now_s, None)
        node = self.cluster.fleet.nodes.get(name)
        if node is None or not node.has_for_us(is_admin=self.question.looks_on):
            return bare
        misfits = _list_pod_reasons(self.cluster, name, self.fit)
        is_free, miss = self._look(name)
        matches = miss.free + miss.taken > 0
        held = self._find_hold(name) if is_free and not misfits else ""
        verdict = ("pod" if misfits else "held" if held else "fits") if is_free else "devices" if matches else "none"
        reasons = [held] if held else [*([] if is_free else self._list_device_reasons(node, miss)), *misfits]
        return NodeAnswer(
            node=name,
            verdict=verdict,
            reasons=tuple(reasons),
            need=miss.need,
            free=miss.free,
            largest=miss.largest,
            ways=(),
        )

    def find_ways(self, answer: NodeAnswer, holders: Holders) -> tuple[WayView, ...]:
        """Who is in the way on one node."""
        found = self._find_candidate(self.cluster.fleet.nodes[answer.node], self._look(answer.node)[1].request)
        if found is None:
            return ()
        candidate, scope = found
        free = candidate.masks.free & ~holders.used(candidate.node)
        masks = GpuMasks(all=candidate.masks.all, healthy=candidate.masks.healthy, free=free)
        return choose_ways([replace(candidate, masks=masks)], holders, answer.need, scope, most=1)

    def _find_candidate(self, node: DeviceNode, request: str) -> tuple[Candidate, Scope] | None:
        """The node as the request sees it. None where it asks for more than so many whole GPUs with one thing in common."""
        claim, flat, alternative = self._find_request(request)
        view = self.cluster.fleet.view(self.question.problem)
        key = view.index.key_of(node.name)
        eligible = 0 if key is None else view.index.statics(key).eligible[flat]
        if not eligible or eligible & ~node.whole or alternative.is_all or alternative.is_admin:
            return None
        free = eligible & ~self.cluster.fleet.taken(node.name).mask
        scope, attribute = _find_scope(claim, alternative)
        groups = None if attribute is None else tuple(split([eligible], node.values_of(attribute)))
        return Candidate(node=node, masks=GpuMasks(all=node.whole, healthy=eligible, free=free), groups=groups), scope

    def _look(self, name: str) -> tuple[bool, Miss]:
        """Whether the devices are there, and the numbers."""
        fleet, problem = self.cluster.fleet, self.question.problem
        key = fleet.view(problem).index.key_of(name)
        known = self._known.get(key)
        if known is None:
            is_free = place(fleet, problem, only=(name,)) is not None
            known = self._known[key] = (is_free, explain(fleet, problem, only=(name,)))
        return known

    def _list_device_reasons(self, node: DeviceNode, miss: Miss) -> Iterator[str]:
        _, _, alternative = self._find_request(miss.request)
        if miss.free + miss.taken == 0:
            yield f"none of its devices is what request {miss.request} asks for"
        else:
            free = f"{miss.free} of {count(miss.free + miss.taken, 'device')} free"
            yield f"needs {miss.need or 'all'} on {miss.scope}; {free}, the largest free set is {miss.largest}"
        if miss.shortage is not None:
            yield miss.shortage.detail
        tainted = [
            taint.key
            for at in positions_of(node.selected(alternative.selectors) & node.ours & ~node.tolerated(alternative.tolerations))
            for taint in node.devices[at].taints
            if taint.key != ALLOCATOR_KEY
        ]
        if tainted:
            yield f"devices are tainted: {join_names(dict.fromkeys(tainted))}"
        if not self._could_ever(node, miss):
            yield "it could not even if all of its devices were free"
        if miss.is_together:
            yield "each request fits alone, but not all of them together"
        if miss.undecided:
            yield "the search ended before it could tell"
        yield from (
            f"selector failed on {node.name}/{node.faults[each]}" for each in alternative.selectors if each in node.faults
        )

    def _find_hold(self, name: str) -> str:
        """Whom the node is held for, in words."""
        holds = self.reading.holds
        if holds is None or holds.key is None or holds.allows(build_waiting(self.cluster, self.question, self.now_s), name):
            return ""
        demand = self.cluster.demand_of(holds.key)
        whom = "a larger claim" if demand is None else f"pod {demand.pods[0].metadata.namespace}/{demand.pods[0].metadata.name}"
        return f"the node is held for {whom}, which has waited long"

    def _could_ever(self, node: DeviceNode, miss: Miss) -> bool:
        """False where the node has no set of GPUs that would do, whoever has them."""
        found = self._find_candidate(node, miss.request) if miss.need > miss.largest else None
        return found is None or any(True for _ in found[0].list_sets(miss.need, found[1]))

    def _find_request(self, name: str) -> tuple[AskedClaim, int, Alternative]:
        """The claim and the alternative of this name, and its number among all."""
        flat = 0
        for claim in self.question.problem.claims:
            for request in claim.requests:
                for alternative in request.alternatives:
                    if alternative.name == name:
                        return claim, flat, alternative
                    flat += 1
        raise LookupError(name)


def _find_scope(claim: AskedClaim, alternative: Alternative) -> tuple[Scope, str | None]:
    """What the GPUs must have in common: a scope, or an attribute that is to have one value."""
    for constraint in claim.constraints:
        if constraint.covers(alternative) and not constraint.is_distinct:
            return Scope.NODE, constraint.attribute
    return (claim.policy.scope if claim.policy.mode is Mode.REQUIRED else Scope.NODE), None


def _list_nodes(cluster: Cluster) -> list[str]:
    """All nodes with devices of the driver, whoever allocates them."""
    left_out = (name for each in cluster.pools_left_out.values() for name in each.nodes)
    return sorted({*cluster.fleet.nodes, *left_out})


def _build_bare(cluster: Cluster, name: str, now_s: float, fit: PodAsk | None) -> NodeAnswer:
    node = cluster.fleet.nodes.get(name)
    reasons = [] if fit is None else _list_pod_reasons(cluster, name, fit)
    if node is None:
        faults = [f"its pool is {each.reason}" for each in cluster.pools_left_out.values() if name in each.nodes]
        return _bare(name, "incomplete", faults + reasons)
    allocator = find_allocator(node)
    if allocator == DRAINING:
        times = [time for pool in cluster.pools.values() if pool.node == name and (time := read_drain(pool)) is not None]
        since = f" for {describe_span_s(now_s - parse_time_s(times[0]))}" if times else ""
        text = (
            f"its {count(len(node.ids), 'device')} go from one allocator to the other{since}: nobody gets any before that ends"
        )
        return _bare(name, "draining", [text, *reasons])
    if allocator != CONTROLLER and not node.ours:
        return _bare(name, "scheduler", [f"its {count(len(node.ids), 'device')} are kube-scheduler's: not fenced", *reasons])
    text = f"{node.ours.bit_count()} of its {count(len(node.ids), 'device')} are the controller's: fenced"
    return _bare(name, "controller", [text, *reasons])


def _bare(name: str, verdict: str, reasons: list[str]) -> NodeAnswer:
    return NodeAnswer(node=name, verdict=verdict, reasons=tuple(reasons), need=0, free=0, largest=0, ways=())


def _list_pod_reasons(cluster: Cluster, name: str, fit: PodAsk) -> list[str]:
    node = cluster.nodes.get(name)
    if node is None:
        return ["there is no Node of this name"]
    return [each.detail for each in list_misfits(fit, node, cluster.rooms.room(name))]


def _in_order(answers: list[NodeAnswer]) -> tuple[NodeAnswer, ...]:
    """The nearest first."""
    return tuple(sorted(answers, key=lambda each: (_ORDER.index(each.verdict), each.need - each.largest, each.node)))
