"""Which nodes a decision looks at: where the pod is bound to one, where its room is, what was learned of them."""

from __future__ import annotations

import pytest

from driver.api.fence import SCHEDULER
from driver.controller.books.volumes import PersistentVolume, VolumeClaim
from driver.controller.objects.model import Claim
from driver.kube.changes import Change, ChangeKind
from tests.unit.controller.deciding.decisions import SMALL, cpu, place, wait
from tests.unit.controller.world import (
    decode,
    gpus,
    request,
    world,
)

FIXED: list[tuple[str, str, str]] = [
    ("no devices at all", "bare", "the node must be bare, which has no devices"),
    ("kube-scheduler's devices", "theirs", "the node must be theirs, which has only devices that are not the controller's"),
    (
        "a pool that is being updated",
        "half",
        "the node must be half, where pool half is incomplete: 1 of 2 slices; it is being updated",
    ),
    ("devices, all taken", "full", "1 node, 0 free GPUs; need 1 on one node; largest free set is 0"),
]


def test_a_pod_that_has_its_node_is_served_there_whatever_the_node_has_left() -> None:
    """The kubelet has it already."""
    made = world("a", "b")
    made.claim("c")
    made.pod("p", "c", nodeName="b", containers=cpu("1000"))
    assert place(made, "p").node == "b"


@pytest.mark.parametrize(("node", "text"), [case[1:] for case in FIXED], ids=[case[0] for case in FIXED])
def test_where_the_node_is_fixed_nothing_else_is_looked_at(node: str, text: str) -> None:
    made = world("other")
    made.node("bare")
    made.node("theirs", gpus(1, value=SCHEDULER))
    made.node("half")
    made.slice("half", gpus(1), of=2)
    made.node("full", gpus(1))
    made.claim("taken")
    made.allocate("taken", "full", "gpu-0")
    made.claim("c")
    made.pod("p", "c", nodeName=node)
    assert wait(made, "p") == text


def test_two_nodes_at_once_cannot_be() -> None:
    made = world("a", "b")
    for name in ("x", "y"):
        made.claim(name)
    made.allocate("x", "a", "gpu-0")
    made.pod("p", "x", "y", nodeName="b")
    assert wait(made, "p") == "pod p is on node b, but claim x is on node a"


def test_a_claim_that_leaves_a_choice_of_nodes_is_heard() -> None:
    made = world("a")
    made.node("b", gpus(4), labels={"rack": "2"})
    for name in ("net", "gpu"):
        made.claim(name)
    results = [{"request": "r", "driver": "net.example.com", "pool": "p", "device": "d"}]
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["2", "3"]}]}
    selector = {"nodeSelectorTerms": [term]}
    made.change_claim("net", status={"allocation": {"devices": {"results": results}, "nodeSelector": selector}})
    made.pod("p", "net", "gpu")
    assert place(made, "p").node == "b"


def test_a_node_that_does_not_exist_gets_nothing() -> None:
    """Slices may be there before the Node, and after."""
    made = world()
    made.slice("a", gpus(4))
    made.job("p")
    assert wait(made, "p") == "devices are free on a, but the pod does not fit there: there is no such node"


def test_pods_that_are_placed_but_not_bound_take_their_room() -> None:
    """Otherwise a burst would be sent to one node that cannot take it."""
    made = world()
    made.node("a", gpus(8), allocatable=SMALL)
    for name in ("p", "q", "r"):
        made.job(name, containers=cpu("3"))
    made.reserve(place(made, "p"))
    made.reserve(place(made, "q"))
    assert "too many pods: 0 of 2 places are left" in wait(made, "r")
    made.cluster.cancel(made.get(Claim, "q").metadata.uid)
    assert place(made, "r").node == "a"


def test_what_kube_scheduler_has_nominated_is_tried_first() -> None:
    """R32: it has made room there."""
    made = world("a", "b")
    made.job("p", status={"nominatedNodeName": "b"})
    made.job("q")
    assert (place(made, "p").node, place(made, "q").node) == ("b", "a")
    made.job("r", request(count=4), status={"nominatedNodeName": "b"})
    made.claim("taken")
    made.allocate("taken", "b", "gpu-0")
    assert place(made, "r").node == "a"


def test_room_that_was_made_for_a_pod_is_not_given_to_a_lesser_one() -> None:
    made = world()
    made.node("a", gpus(8), allocatable=SMALL)
    made.job("high", priority=10, containers=cpu("6"), status={"nominatedNodeName": "a"})
    made.job("low", containers=cpu("6"))
    made.job("higher", priority=20, containers=cpu("6"))
    assert "not enough cpu" in wait(made, "low")
    assert (place(made, "high").node, place(made, "higher").node) == ("a", "a")


def test_nodes_that_were_learned_to_be_no_good_are_left_out_and_the_reason_told() -> None:
    made = world("a", "b")
    made.job("p")
    avoid = {"a": "kube-scheduler took the claim back 3 s ago"}
    assert place(made, "p", avoid=avoid).node == "b"
    assert wait(made, "p", avoid=avoid | {"b": "the same"}) == (
        "devices are free on a, but the pod does not fit there: "
        "it is left out for now: kube-scheduler took the claim back 3 s ago; the pod does not fit on: 2 nodes: left out for now"
    )


def test_volumes_that_are_bound_bind_the_pod() -> None:
    made = world()
    made.node("a", gpus(4))
    made.node("b", gpus(4), labels={"zone": "z"})
    made.job("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    assert "its volumes are not known yet" in wait(made, "p")
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    claim = {"metadata": {"name": "data", "namespace": "team", "uid": "v", "annotations": done}, "spec": {"volumeName": "v"}}
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}
    volume = {"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}
    made.cluster.note_volume_claim(Change(kind=ChangeKind.ADDED, item=decode(VolumeClaim, claim)))
    made.cluster.note_volume(Change(kind=ChangeKind.ADDED, item=decode(PersistentVolume, volume)))
    made.cluster.volumes.note_listed(claims=True, volumes=True)
    assert place(made, "p").node == "b"
    made.cluster.note_volume(Change(kind=ChangeKind.DELETED, item=decode(PersistentVolume, volume)))
    assert "volume v of claim data does not exist" in wait(made, "p")
