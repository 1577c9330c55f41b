"""A pod fits where kube-scheduler would let it run, and elsewhere the reason is told in plain words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from driver.controller.books.demands import Demand
from driver.controller.books.node_room import NodeRooms, Standing
from driver.controller.books.volumes import VolumeClaim, Volumes
from driver.controller.deciding.pod_fit import (
    build_allows,
    build_demand_ask,
    build_pod_ask,
    describe_misfits,
    find_misfit,
    list_misfits,
    tolerates,
)
from driver.controller.objects.model import Node, NodeTaint, Pod, PodToleration
from driver.controller.objects.pod_use import build_pod_use
from tests.unit.controller.fit_cases import affine, asks_for, container, expression, field, node, pod, selector

TAINT = {"key": "example.com/x", "value": "v", "effect": "NoSchedule"}


def volumes() -> Volumes:
    made = Volumes()
    made.claims_listed = made.volumes_listed = True
    return made


def misfits(wanting: Pod, on: Node, *, others: tuple[Pod, ...] = ()) -> list[str]:
    """What keeps the pod off the node that the others are bound to, in detail."""
    rooms = NodeRooms()
    rooms.set_node(on.metadata.name, on.status.allocatable)
    for each in others:
        rooms.put(each.metadata.uid, build_pod_use(each), on.metadata.name)
    ask = build_pod_ask(wanting, volumes())
    return [each.detail for each in list_misfits(ask, on, rooms.room(on.metadata.name))]


TOLERATIONS: list[tuple[str, Mapping[str, str], Mapping[str, str], bool]] = [
    ("equal", {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, {}, True),
    ("no operator is Equal", {"key": "k", "value": "v"}, {}, True),
    ("another value", {"key": "k", "value": "w"}, {}, False),
    ("no value is not any value", {"key": "k"}, {}, False),
    ("no value for a taint without one", {"key": "k"}, {"value": ""}, True),
    ("any value", {"key": "k", "operator": "Exists"}, {}, True),
    ("another key", {"key": "l", "operator": "Exists"}, {}, False),
    ("any taint", {"operator": "Exists"}, {}, True),
    ("any taint of an effect", {"operator": "Exists", "effect": "NoSchedule"}, {}, True),
    ("another effect", {"operator": "Exists", "effect": "NoExecute"}, {}, False),
    ("any key of that value", {"operator": "Equal", "value": "v"}, {}, True),
    ("an operator that is not known", {"key": "k", "operator": "Like", "value": "v"}, {}, False),
    ("less", {"key": "k", "operator": "Lt", "value": "10"}, {"value": "9"}, True),
    ("not less", {"key": "k", "operator": "Lt", "value": "10"}, {"value": "10"}, False),
    ("greater", {"key": "k", "operator": "Gt", "value": "-1"}, {"value": "0"}, True),
    ("not greater", {"key": "k", "operator": "Gt", "value": "10"}, {"value": "9"}, False),
    ("no number", {"key": "k", "operator": "Gt", "value": "1"}, {"value": "v"}, False),
    ("a number in another form", {"key": "k", "operator": "Gt", "value": "01"}, {"value": "9"}, False),
]


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"), [case[1:] for case in TOLERATIONS], ids=[case[0] for case in TOLERATIONS]
)
def test_tolerations(toleration: Mapping[str, str], taint: Mapping[str, str], expected: bool) -> None:
    given = msgspec.convert({"key": "k", "value": "v", "effect": "NoSchedule", **taint}, NodeTaint)
    assert tolerates([msgspec.convert(toleration, PodToleration)], given) is expected


CASES: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    ("a pod without wishes fits", {}, {}, []),
    ("a taint keeps it away", {}, {"taints": [TAINT]}, ["taint example.com/x=v:NoSchedule"]),
    ("NoExecute too", {}, {"taints": [{"key": "x", "effect": "NoExecute"}]}, ["taint x:NoExecute"]),
    ("PreferNoSchedule does not", {}, {"taints": [{**TAINT, "effect": "PreferNoSchedule"}]}, []),
    ("a taint that is tolerated", {"tolerations": [{"key": "example.com/x", "operator": "Exists"}]}, {"taints": [TAINT]}, []),
    (
        "all taints must be tolerated",
        {"tolerations": [{"key": "example.com/x", "operator": "Exists"}]},
        {"taints": [TAINT, {"key": "y", "effect": "NoSchedule"}]},
        ["taint y:NoSchedule"],
    ),
    ("a cordoned node", {}, {"unschedulable": True}, ["cordoned"]),
    (
        "a cordoned node with its taint is said once",
        {},
        {"unschedulable": True, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]},
        ["cordoned"],
    ),
    (
        "the taint alone, which comes a moment later or earlier",
        {},
        {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]},
        ["cordoned"],
    ),
    (
        "who tolerates the implicit taint goes to a cordoned node, as DaemonSets do",
        {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]},
        {"unschedulable": True},
        [],
    ),
    (
        "of another effect it does not help",
        {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"}]},
        {"unschedulable": True},
        ["cordoned"],
    ),
    ("a node selector", {"nodeSelector": {"disk": "ssd"}}, {"labels": {"disk": "hdd"}}, ["node selector disk=ssd"]),
    ("a node selector that fits", {"nodeSelector": {"disk": "ssd"}}, {"labels": {"disk": "ssd"}}, []),
    (
        "required affinity",
        {"affinity": affine(expression("zone", "In", "a"))},
        {"labels": {"zone": "b"}},
        ["required node affinity"],
    ),
    ("required affinity that fits", {"affinity": affine(expression("zone", "In", "a"))}, {"labels": {"zone": "a"}}, []),
    ("affinity by name, as DaemonSets have it", {"affinity": affine(field("In", "node-a"))}, {}, []),
    ("affinity without terms selects nothing", {"affinity": affine()}, {}, ["required node affinity"]),
    (
        "preferences are no requirement",
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
        {},
        [],
    ),
    ("the node by nodeName", {"nodeName": "node-b"}, {}, ["the pod must go to node node-b"]),
    (
        "requests beyond the node",
        {"containers": [container("65", "1Ti")]},
        {},
        ["not enough cpu: needs 65, 64 of 64 are left", "not enough memory: needs 1024Gi, 256Gi of 256Gi are left"],
    ),
    (
        "a resource that the node does not have",
        {"containers": [container(more={"example.com/x": "2"})]},
        {},
        ["not enough example.com/x: needs 2, 0 of 0 are left"],
    ),
    (
        "resources that kube-scheduler takes from devices of a class",
        {"containers": [container(more={"deviceclass.resource.kubernetes.io/nic": "1"})]},
        {},
        [],
    ),
    ("a full node", {}, {"allocatable": {"cpu": "1", "pods": "0"}}, ["too many pods: 0 of 0 places are left"]),
    ("a node that says nothing yet", {}, {"allocatable": {}}, ["too many pods: 0 of 0 places are left"]),
]


@pytest.mark.parametrize(("spec", "on", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_misfits(spec: dict[str, Any], on: dict[str, Any], expected: list[str]) -> None:
    assert misfits(pod(**spec), node(**on)) == expected


def test_pods_on_the_node_take_of_it() -> None:
    others = (asks_for("a", cpu="60"), asks_for("b", cpu="1500m"))
    assert misfits(asks_for(cpu="2500m"), node(), others=others) == []
    assert misfits(asks_for(cpu="2501m"), node(), others=others) == ["not enough cpu: needs 2.501, 2.5 of 64 are left"]


def test_host_ports_of_others_are_in_the_way() -> None:
    web = pod("web", containers=[container(ports=[{"hostPort": 80}])])
    again = pod("again", containers=[container(ports=[{"hostPort": 80, "hostIP": "10.0.0.1"}])])
    assert misfits(again, node(), others=(web,)) == ["host port TCP 80 is in use"]


def test_volumes_are_in_the_way() -> None:
    made = volumes()
    waits = pod(volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    rooms = NodeRooms()
    rooms.set_node("node-a", node().status.allocatable)
    assert find_misfit(build_pod_ask(waits, made), node(), rooms.room("node-a")) == ("volume claim data does not exist",) * 2
    made.set_claim(msgspec.convert({"metadata": {"name": "data", "namespace": "team"}}, VolumeClaim))
    assert find_misfit(build_pod_ask(waits, made), node(), rooms.room("node-a")) is None


def test_kinds_are_the_same_on_all_nodes_and_can_be_counted() -> None:
    rooms = NodeRooms()
    nodes = {
        "a": node("a", taints=[TAINT]),
        "b": node("b", taints=[{**TAINT, "value": "w"}]),
        "c": node("c", allocatable={"cpu": "1", "pods": "9"}),
        "d": node("d"),
    }
    for name, each in nodes.items():
        rooms.set_node(name, each.status.allocatable)
    counted: Counter[str] = Counter()
    allows = build_allows(build_pod_ask(asks_for(cpu="2"), volumes()), nodes, rooms, counted)
    assert [name for name in [*nodes, "e"] if allows(name)] == ["d"]
    assert describe_misfits(counted) == "2 nodes: taint example.com/x, 1 node: no such node, 1 node: not enough cpu"


def demand(*pods: Pod, **more: Any) -> Demand:
    return Demand(key="k", pods=pods, claims=(), node=more.pop("node", None), priority=0, since_s=0.0, **more)


def all_misfits(asked: Demand, on: Node, *, at_once: bool = True, delegated: frozenset[str] = frozenset()) -> list[str]:
    rooms = NodeRooms()
    rooms.set_node(on.metadata.name, on.status.allocatable)
    ask = build_demand_ask(asked, volumes(), at_once=at_once, delegated=delegated)
    return [each.kind for each in list_misfits(ask, on, rooms.room(on.metadata.name))]


def test_pods_that_share_a_claim_must_fit_together() -> None:
    both = demand(asks_for("a", cpu="40"), asks_for("b", cpu="40"))
    assert all_misfits(both, node()) == ["not enough cpu"]
    assert all_misfits(both, node(), at_once=False) == []
    assert all_misfits(demand(asks_for("a", cpu="40"), asks_for("b", cpu="24")), node()) == []


def test_pods_that_share_a_claim_need_a_place_each() -> None:
    small = node(allocatable={"cpu": "1", "pods": "1"})
    assert all_misfits(demand(pod("a"), pod("b")), small) == ["too many pods"]
    assert all_misfits(demand(pod("a"), pod("b")), small, at_once=False) == []


def test_what_one_of_the_pods_cannot_have_keeps_all_away() -> None:
    tolerant = pod("a", tolerations=[{"operator": "Exists"}], nodeSelector={"disk": "ssd"})
    plain = pod("b", affinity=affine(expression("zone", "In", "a")))
    on = node(taints=[TAINT], labels={"disk": "hdd"})
    expected = ["taint example.com/x", "node selector disk=ssd", "required node affinity"]
    assert all_misfits(demand(tolerant, plain), on) == expected
    assert all_misfits(demand(tolerant, plain), on, at_once=False) == expected


def test_two_pods_of_one_host_port_never_fit_together() -> None:
    first, second = (pod(name, containers=[container(ports=[{"hostPort": 80}])]) for name in "ab")
    assert all_misfits(demand(first, second), node()) == ["two of the pods want host port TCP 80"]
    assert all_misfits(demand(first, second), node(), at_once=False) == []


def test_a_pod_that_is_bound_is_there_already() -> None:
    bound = pod("a", nodeName="node-a", containers=[container("60")])
    waits = asks_for("b", cpu="10")
    assert all_misfits(demand(bound, waits, node="node-a"), node()) == []
    assert all_misfits(demand(bound, waits, node="node-a"), node("node-b")) == ["the pod must go to node node-a"]
    assert all_misfits(demand(bound, node="node-a"), node(taints=[TAINT], allocatable={"pods": "0"})) == []


def test_claims_that_are_allocated_already_say_where() -> None:
    fixed = demand(pod("a"), selectors=(selector(expression("zone", "In", "a")), selector(field("NotIn", "node-b"))))
    assert all_misfits(fixed, node(labels={"zone": "a"})) == []
    assert all_misfits(fixed, node(labels={"zone": "b"})) == ["another claim of the pod is allocated elsewhere"]
    assert all_misfits(fixed, node("node-b", labels={"zone": "a"})) == ["another claim of the pod is allocated elsewhere"]


def test_resources_that_devices_serve_need_not_be_there_but_count_where_they_are() -> None:
    wants = demand(asks_for(**{"example.com/x": "2"}))
    serves = frozenset({"example.com/x"})
    assert all_misfits(wants, node()) == ["not enough example.com/x"]
    assert all_misfits(wants, node(), delegated=serves) == []
    has_one = node(allocatable={"pods": "9", "example.com/x": "1"})
    assert all_misfits(wants, has_one, delegated=serves) == ["not enough example.com/x"]


def test_the_pods_of_a_demand_are_not_in_their_own_way() -> None:
    """kube-scheduler may have nominated one of them."""
    rooms = NodeRooms()
    rooms.set_node("node-a", node().status.allocatable)
    waits = asks_for("a", cpu="40")
    rooms.put("uid-a", build_pod_use(waits), "node-a", Standing.NOMINATED)
    assert find_misfit(build_demand_ask(demand(waits), volumes()), node(), rooms.room("node-a")) is None
