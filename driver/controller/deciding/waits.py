"""Why a demand waits, in plain words with numbers: what keeps its pods off which nodes, and the nearest miss on the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from driver.allocator.decide import explain, place
from driver.allocator.hold import Holds
from driver.allocator.miss import Miss
from driver.controller.books.mirror import Cluster
from driver.controller.deciding.pod_fit import Misfit, PodAsk, describe_misfits, find_misfit
from driver.controller.deciding.question import Question

_MOST_LEFT_OUT = 2
NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why nothing can be placed now. ``miss`` where devices are what is missing."""

    text: str
    miss: Miss | None = None


@dataclass(slots=True, kw_only=True)
class _Nodes:
    """The nodes with devices of the controller's: each is asked about once, and those that do not fit the pods are counted."""

    cluster: Cluster
    ask: PodAsk
    avoid: Mapping[str, str]
    looks_on: bool
    misfits: Counter[str] = field(default_factory=Counter)
    _known: dict[str, Misfit | None] = field(default_factory=dict)

    def is_ours(self, name: str) -> bool:
        return self.cluster.fleet.nodes[name].has_for_us(is_admin=self.looks_on)

    def fits(self, name: str) -> bool:
        return self.is_ours(name) and self.find_misfit(name) is None

    def find_misfit(self, name: str) -> Misfit | None:
        if name not in self._known:
            misfit = self._known[name] = self._look(name)
            if misfit is not None:
                self.misfits[misfit.kind] += 1
        return self._known[name]

    def _look(self, name: str) -> Misfit | None:
        if name in self.avoid:
            return Misfit("left out for now", f"it is left out for now: {self.avoid[name]}")
        node = self.cluster.nodes.get(name)
        if node is None:
            return Misfit("no such node", "there is no such node")
        return find_misfit(self.ask, node, self.cluster.rooms.room(name))


def find_reason(
    cluster: Cluster, question: Question, ask: PodAsk, *, avoid: Mapping[str, str] = NOTHING, holds: Holds | None = None
) -> Reason:
    """Why the demand is not placed. Looks at every node. ``avoid``: nodes that are left out for now, each with the reason."""
    demand = question.demand
    if demand.conflict:
        return Reason(text=demand.conflict)
    nodes = _Nodes(cluster=cluster, ask=ask, avoid=avoid, looks_on=question.looks_on)
    if demand.node is not None and not (demand.node in cluster.fleet.nodes and nodes.is_ours(demand.node)):
        return Reason(text=_describe_bare(cluster, demand.node))
    reason = _find_on_nodes(nodes, question, demand.node, holds)
    left_out = "" if demand.node is not None else _describe_left_out(nodes)
    return replace(reason, text=reason.text + left_out)


def _find_on_nodes(nodes: _Nodes, question: Question, node: str | None, holds: Holds | None) -> Reason:
    cluster = nodes.cluster
    only = None if node is None else (node,)
    miss = explain(cluster.fleet, question.problem, allows=nodes.fits, only=only)
    free = place(cluster.fleet, question.problem, allows=nodes.fits, only=only)
    if free is not None:
        return Reason(text=_describe_held(cluster, free.node, holds))
    free = place(cluster.fleet, question.problem, only=only)
    if free is not None:
        return Reason(text=_describe_unfit(nodes, free.node, miss), miss=miss if miss.nodes else None)
    if not miss.nodes:
        miss = explain(cluster.fleet, question.problem, allows=nodes.is_ours, only=only)
    others = f"; the pod does not fit on: {describe_misfits(nodes.misfits)}" if nodes.misfits else ""
    return Reason(text=miss.text + others, miss=miss)


def _describe_bare(cluster: Cluster, name: str) -> str:
    """Why there is nothing to be had on the one node that it must be."""
    left_out = [f"pool {each.name} is {each.reason}" for each in cluster.pools_left_out.values() if name in each.nodes]
    if left_out:
        return f"the node must be {name}, where {left_out[0]}"
    has = "has only devices that are not the controller's" if name in cluster.fleet.nodes else "has no devices"
    return f"the node must be {name}, which {has}"


def _describe_left_out(nodes: _Nodes) -> str:
    """Pools of which nothing can be had now, though the pods could go there."""
    cluster = nodes.cluster
    found = [
        f"{each.name} is {each.reason}"
        for each in cluster.pools_left_out.values()
        if each.driver == cluster.driver and any(nodes.find_misfit(name) is None for name in each.nodes)
    ]
    shown = ", ".join(sorted(found)[:_MOST_LEFT_OUT]) + (", ..." if len(found) > _MOST_LEFT_OUT else "")
    return f"; left out: pool {shown}" if found else ""


def _describe_unfit(nodes: _Nodes, name: str, miss: Miss) -> str:
    """Devices are free, but not where the pods may go."""
    misfit = nodes.find_misfit(name)
    near = "" if misfit is None else f"devices are free on {name}, but the pod does not fit there: {misfit.detail}"
    others = f"the pod does not fit on: {describe_misfits(nodes.misfits)}" if nodes.misfits.total() > 1 else ""
    return "; ".join(each for each in (near, others, miss.text if miss.nodes else "") if each)


def _describe_held(cluster: Cluster, name: str, holds: Holds | None) -> str:
    """Only the hold rule is in the way; or nothing at all, before it is decided."""
    if holds is None:
        return f"devices are free on {name}; it is about to be placed"
    if holds.node != name or holds.key is None:
        return f"devices are free on {name}, but one of the last whole sets for larger claims would be broken there"
    demand = cluster.demand_of(holds.key)
    whom = "a larger claim" if demand is None else f"pod {demand.pods[0].metadata.namespace}/{demand.pods[0].metadata.name}"
    return f"devices are free on {name}, but it is held for {whom}, which has waited long"
