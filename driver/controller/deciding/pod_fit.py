"""Does a pod fit a node: everything that kube-scheduler filters by and that can be known from the pod, the node and its pods.

Node name, node selector and required affinity, taints, bound volumes, host ports, places for pods, and requests against what
is left, each as kube-scheduler 1.37.2 judges it (R33). Affinity to other pods and topology spread are not modelled: they are
learned when the scheduler takes an allocation back.

A pod's side is worked out once (``build_pod_ask``); to ask about a node then costs microseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from driver.controller.books.demands import Demand
from driver.controller.books.node_room import NodeRoom, NodeRooms, Shortage, find_collision, format_amount
from driver.controller.books.volumes import Volumes, VolumeTie
from driver.controller.objects.model import Node, NodeTaint, Pod, PodToleration
from driver.controller.objects.node_terms import NodeTerms, find_wrong_label, parse_integer
from driver.controller.objects.pod_use import OF_CLASS, PODS, PodUse, build_pod_use

_KEEPS_AWAY = ("NoSchedule", "NoExecute")
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_CORDONED = NodeTaint(key=_UNSCHEDULABLE, effect="NoSchedule")


class Misfit(NamedTuple):
    """Why a node is no good for a pod."""

    kind: str
    """In plain words, the same for all nodes of which the same is true: ``not enough cpu``, ``taint example.com/x``."""
    said: str | Shortage
    """In words, or the numbers, which are hardly ever looked at."""

    @property
    def detail(self) -> str:
        """The same with what is true of this node alone: ``not enough cpu: needs 8, 2.5 of 64 are left``."""
        return self.said if isinstance(self.said, str) else f"{self.kind}: {_describe(self.said)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAsk:
    """What pods that must go to one node ask of it: one pod, or several that share a claim."""

    uids: frozenset[str]
    use: PodUse
    """Of all of them together; the priority is the lowest, which yields to most."""
    pods: int
    node_name: str = ""
    """The one node, where it is fixed."""
    labels: tuple[tuple[str, str], ...] = ()
    affinity: tuple[NodeTerms, ...] = ()
    tolerations: tuple[tuple[PodToleration, ...], ...] = ()
    """For each pod."""
    ties: tuple[VolumeTie, ...] = ()
    elsewhere: tuple[NodeTerms, ...] = ()
    """Node selectors of claims that are allocated already."""
    delegated: frozenset[str] = frozenset()
    """Resources that kube-scheduler takes from devices, on nodes that have none of them (``extendedResourceName``)."""
    fault: str | None = None
    """Why they fit no node together, whatever it has."""


def build_pod_ask(pod: Pod, volumes: Volumes) -> PodAsk:
    """What the pod asks."""
    affinity = None if pod.spec.affinity is None else pod.spec.affinity.node_affinity
    return PodAsk(
        uids=frozenset({pod.metadata.uid}),
        use=build_pod_use(pod),
        pods=1,
        node_name=pod.spec.node_name,
        labels=tuple(pod.spec.node_selector.items()),
        affinity=() if affinity is None or affinity.required is None else (NodeTerms(affinity.required),),
        tolerations=(pod.spec.tolerations,),
        ties=volumes.list_ties(pod),
    )


def build_demand_ask(
    demand: Demand, volumes: Volumes, *, delegated: frozenset[str] = frozenset(), at_once: bool = True
) -> PodAsk:
    """What the demand's pods that wait ask of their node. Pods that are bound are on it already, whatever it has.

    ``at_once``: there must be room for all of them at the same time. Without it for each alone, which is better than nothing
    for many pods that share a claim and take turns.
    """
    asks = [build_pod_ask(pod, volumes) for pod in demand.pods if not pod.spec.node_name]
    joined = _join(asks, at_once=at_once)
    elsewhere = tuple(NodeTerms(selector) for selector in demand.selectors)
    uids = frozenset(pod.metadata.uid for pod in demand.pods)
    return replace(joined, uids=uids, node_name=demand.node or "", elsewhere=elsewhere, delegated=delegated)


def _join(asks: Sequence[PodAsk], *, at_once: bool) -> PodAsk:
    if len(asks) == 1:
        return asks[0]
    ports = tuple(dict.fromkeys(port for ask in asks for port in ask.use.ports))
    collision = find_collision(port for ask in asks for port in ask.use.ports) if at_once else None
    return PodAsk(
        uids=frozenset().union(*(ask.uids for ask in asks)),
        use=PodUse(
            requests=_join_requests([dict(ask.use.requests) for ask in asks], at_once=at_once),
            ports=ports,
            priority=min((ask.use.priority for ask in asks), default=0),
        ),
        pods=len(asks) if at_once else min(1, len(asks)),
        labels=tuple(dict.fromkeys(pair for ask in asks for pair in ask.labels)),
        affinity=tuple(terms for ask in asks for terms in ask.affinity),
        tolerations=tuple(dict.fromkeys(each for ask in asks for each in ask.tolerations)),
        ties=tuple(dict.fromkeys(tie for ask in asks for tie in ask.ties)),
        fault=None if collision is None else f"two of the pods want host port {collision.protocol} {collision.port}",
    )


def _join_requests(requests: Sequence[Mapping[str, int]], *, at_once: bool) -> tuple[tuple[str, int], ...]:
    join = sum if at_once else max
    names = sorted({name for each in requests for name in each})
    return tuple((name, join([each.get(name, 0) for each in requests])) for name in names)


def find_misfit(ask: PodAsk, node: Node, room: NodeRoom) -> Misfit | None:
    """The first thing that keeps the pods off the node."""
    return next(list_misfits(ask, node, room), None)


def list_misfits(ask: PodAsk, node: Node, room: NodeRoom) -> Iterator[Misfit]:
    """Everything that keeps the pods off the node: first what no other pod's end would change."""
    if ask.fault is not None:
        yield _same(ask.fault)
    if node.spec.taints or node.spec.unschedulable:
        yield from _taint_misfits(ask, node)
    if ask.node_name or ask.labels or ask.affinity or ask.elsewhere or ask.ties:
        yield from _place_misfits(ask, node.metadata.name, node.metadata.labels)
    port = room.port_in_use(ask.use, ask.uids) if ask.use.ports else None
    if port is not None:
        yield _same(f"host port {port.protocol} {port.port} is in use")
    for short in room.list_shortages(ask.use, ask.pods, ask.uids):
        if not _is_delegated(short, ask):
            yield Misfit("too many pods" if short.resource == PODS else f"not enough {short.resource}", short)


def _place_misfits(ask: PodAsk, name: str, labels: Mapping[str, str]) -> Iterator[Misfit]:
    if ask.node_name not in ("", name):
        yield _same(f"the pod must go to node {ask.node_name}")
    wrong = find_wrong_label(ask.labels, labels)
    if wrong is not None:
        yield _same(f"node selector {wrong}")
    if not all(terms.selects(labels, name) for terms in ask.affinity):
        yield _same("required node affinity")
    if not all(terms.selects(labels, name) for terms in ask.elsewhere):
        yield _same("another claim of the pod is allocated elsewhere")
    for tie in ask.ties:
        if not tie.allows(labels, name):
            yield _same(tie.text)


def build_allows(
    ask: PodAsk, nodes: Mapping[str, Node], rooms: NodeRooms, misfits: Counter[str] | None = None
) -> Callable[[str], bool]:
    """``allows`` for ``allocator.decide``: True for nodes that the pods fit. Why others do not is counted in ``misfits``."""

    def allows(name: str) -> bool:
        node = nodes.get(name)
        misfit = Misfit("no such node", "no such node") if node is None else find_misfit(ask, node, rooms.room(name))
        if misfit is None:
            return True
        if misfits is not None:
            misfits[misfit.kind] += 1
        return False

    return allows


def describe_misfits(misfits: Mapping[str, int]) -> str:
    """``3 nodes: taint example.com/x, 2 nodes: not enough cpu``, the most first."""
    counted = sorted(misfits.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{count} node{'' if count == 1 else 's'}: {kind}" for kind, count in counted)


def _same(text: str) -> Misfit:
    return Misfit(text, text)


def _is_delegated(short: Shortage, ask: PodAsk) -> bool:
    return not short.capacity and (short.resource in ask.delegated or short.resource.startswith(OF_CLASS))


def _describe(short: Shortage) -> str:
    if short.resource == PODS:
        return f"{short.left} of {short.capacity} places are left"
    need, left, capacity = (format_amount(short.resource, amount) for amount in (short.need, short.left, short.capacity))
    return f"needs {need}, {left} of {capacity} are left"


def _taint_misfits(ask: PodAsk, node: Node) -> Iterator[Misfit]:
    taints = node.spec.taints
    if node.spec.unschedulable:
        taints = (_CORDONED, *(taint for taint in taints if taint != _CORDONED))
    for taint in taints:
        if taint.effect in _KEEPS_AWAY and not all(tolerates(each, taint) for each in ask.tolerations):
            if taint.key == _UNSCHEDULABLE:
                yield _same("cordoned")
            else:
                value = f"={taint.value}" if taint.value else ""
                yield Misfit(f"taint {taint.key}", f"taint {taint.key}{value}:{taint.effect}")


def tolerates(tolerations: Iterable[PodToleration], taint: NodeTaint) -> bool:
    """True when one of the tolerations puts up with the taint."""
    return any(_matches(each, taint) for each in tolerations)


def _matches(toleration: PodToleration, taint: NodeTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    if toleration.operator == "Exists":
        return True
    wanted, given = _canonical(toleration.value), _canonical(taint.value)
    if wanted is None or given is None:
        return False
    return (toleration.operator == "Lt" and given < wanted) or (toleration.operator == "Gt" and given > wanted)


def _canonical(text: str) -> int | None:
    """A whole number in its one form: no plus, no zeros in front."""
    number = parse_integer(text)
    return number if number is not None and str(number) == text else None
