"""All demands in order, decided anew only where something has changed, with the same answers as if all were asked each time."""

from __future__ import annotations

from typing import Any

from driver.allocator import decide as allocator
from driver.controller.books.volumes import VolumeClaim
from driver.controller.deciding.decision import Place, Wait
from driver.controller.deciding.waiting_line import RESTING, WaitingLine
from driver.controller.objects.model import Claim, Pod
from driver.kube.changes import Change, ChangeKind
from tests.unit.controller.deciding.decisions import cpu
from tests.unit.controller.deciding.rounds import Taught, decide, demand, waiting
from tests.unit.controller.world import NOW_S, World, decode, gpus, request, world

SMALL = {"cpu": "8", "memory": "16Gi", "pods": "110"}


def test_who_fits_is_placed_in_order_and_who_does_not_lets_others_pass() -> None:
    made = world("a")
    made.job("big", request(count=8), priority=5)
    made.job("old", request(count=3), created="2027-01-15T06:00:00Z")
    made.job("young", request(count=2))
    made.job("small")
    line = WaitingLine(made.cluster)
    assert decide(made, line) == ["old@a", "small@a"]
    assert waiting(line) == ["big", "young"]


def test_what_waits_is_placed_when_its_devices_come_free() -> None:
    made = world("a")
    made.claim("held")
    made.allocate("held", "a", "gpu-0")
    made.job("p", request(count=4))
    line = WaitingLine(made.cluster)
    assert decide(made, line) == []
    made.remove(Claim, "held")
    assert decide(made, line) == ["p@a"]
    assert waiting(line) == []


def test_what_waits_is_placed_when_its_pod_fits() -> None:
    """By a label, by another pod's end, by a claim of a volume: whatever it was that it waited for."""
    made = world()
    made.node("a", gpus(4), allocatable=SMALL)
    made.pod("other", nodeName="a", containers=cpu("6"))
    made.job("room", containers=cpu("4"))
    made.job("label", nodeSelector={"pool": "gpu"})
    line = WaitingLine(made.cluster)
    assert decide(made, line) == []
    made.remove(Pod, "other")
    assert decide(made, line) == ["room@a"]
    made.node("a", allocatable=SMALL, labels={"pool": "gpu"})
    assert decide(made, line) == ["label@a"]


def test_what_waits_is_placed_when_its_volume_can_be_reached() -> None:
    """Nothing has changed on any node."""
    made = world("a")
    made.job("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    made.cluster.volumes.note_listed(claims=True, volumes=True)
    line = WaitingLine(made.cluster)
    assert decide(made, line) == []
    meta = {"name": "data", "namespace": "team", "uid": "v"}
    made.cluster.note_volume_claim(Change(kind=ChangeKind.ADDED, item=decode(VolumeClaim, {"metadata": meta})))
    assert decide(made, line) == ["p@a"]
    made.cluster.cancel(made.get(Claim, "p").metadata.uid)
    made.cluster.note_volume_claim(Change(kind=ChangeKind.DELETED, item=decode(VolumeClaim, {"metadata": meta})))
    assert decide(made, line) == []


def test_a_volume_of_others_has_nobody_decided_anew() -> None:
    made = world("a")
    made.job("p", request(count=5))
    line = WaitingLine(made.cluster)
    assert decide(made, line) == []
    before = made.cluster.version
    meta = {"name": "data", "namespace": "elsewhere", "uid": "v"}
    made.cluster.note_volume_claim(Change(kind=ChangeKind.ADDED, item=decode(VolumeClaim, {"metadata": meta})))
    assert made.cluster.version == before


def test_what_waits_is_placed_when_a_pod_is_nominated_for_another_node() -> None:
    made = world()
    made.node("a", gpus(4), allocatable=SMALL)
    made.node("b", allocatable=SMALL)
    made.pod("high", priority=5, containers=cpu("6"), status={"nominatedNodeName": "a"})
    made.job("low", containers=cpu("6"))
    line = WaitingLine(made.cluster)
    assert decide(made, line) == []
    made.pod("high", priority=5, containers=cpu("6"), status={"nominatedNodeName": "b"})
    assert decide(made, line) == ["low@a"]


def test_room_made_for_one_pod_is_its_own_though_others_ask_for_the_same() -> None:
    made = world()
    made.node("a", gpus(4), allocatable=SMALL)
    made.job("older", containers=cpu("6"), created="2027-01-15T06:00:00Z")
    made.job("nominated", containers=cpu("6"), status={"nominatedNodeName": "a"})
    line = WaitingLine(made.cluster)
    assert decide(made, line) == ["nominated@a"]


def test_a_round_may_be_broken_off_and_the_rest_waits() -> None:
    made = world("a")
    for name in ("p", "q", "r"):
        made.job(name)
    line = WaitingLine(made.cluster)
    for decision in line.decide_all(NOW_S, Taught()):
        assert isinstance(decision, Place)
        made.reserve(decision)
        break
    del decision
    assert sorted([*waiting(line)]) == ["q", "r"]
    assert decide(made, line) == ["q@a", "r@a"]


def test_a_demand_that_rests_is_passed_over_and_placed_when_it_has_rested() -> None:
    made = world("a")
    made.job("p")
    line, advice = WaitingLine(made.cluster), Taught()
    advice.resting.add("p")
    assert (decide(made, line, advice=advice), waiting(line)) == ([], ["p"])
    explained = line.explain(demand(made, "p"), advice)
    assert isinstance(explained, Wait)
    assert explained.text == RESTING
    advice.resting.clear()
    assert decide(made, line, advice=advice) == ["p@a"]


def test_what_is_learned_of_nodes_holds_for_that_demand_alone() -> None:
    made = world("a")
    for name in ("p", "q"):
        made.job(name)
    line, advice = WaitingLine(made.cluster), Taught()
    advice.avoid["p"] = {"a": "taken back"}
    assert decide(made, line, advice=advice) == ["q@a"]
    advice.avoid.clear()
    assert decide(made, line, advice=advice) == ["p@a"]


class Counting:
    """Counts what a line asks of the fleet."""

    def __init__(self, made: World) -> None:
        self._fleet = made.cluster.fleet
        self._view = self._fleet.view
        self.views = 0
        self._fleet.view = self._count  # type: ignore[method-assign]

    def _count(self, problem: Any) -> Any:
        self.views += 1
        return self._view(problem)


def test_what_nothing_has_changed_for_is_not_looked_at() -> None:
    """Two hundred that ask for the same are one question, and no question at all before something changes."""
    made = world("a")
    for number in range(200):
        made.job(f"p-{number}", request(count=8))
    made.job("other", request(count=5))
    line, counting = WaitingLine(made.cluster), Counting(made)
    decide(made, line)
    assert counting.views == 2
    decide(made, line)
    assert counting.views == 2
    made.pod("elsewhere", nodeName="no-such-node", containers=cpu("1"))
    decide(made, line)
    assert counting.views == 2
    made.node("b", gpus(4))
    decide(made, line)
    assert counting.views == 4


def test_after_a_change_only_the_nodes_that_changed_are_tried(monkeypatch: Any) -> None:
    made = world("a", "b", "c")
    made.job("p", request(count=8))
    line = WaitingLine(made.cluster)
    decide(made, line)
    looked: list[tuple[str, ...] | None] = []
    place = allocator.place

    def spy(*args: Any, **how: Any) -> Any:
        looked.append(how.get("only"))
        return place(*args, **how)

    monkeypatch.setattr("driver.controller.deciding.decision.place", spy)
    made.slice("b", gpus(6))
    assert (decide(made, line), looked) == ([], [("b",)])
    made.slice("c", gpus(8))
    assert (decide(made, line), looked) == (["p@c"], [("b",), ("c",)])


def test_pods_that_differ_in_what_they_may_do_are_of_different_kinds() -> None:
    made = world()
    made.node("a", gpus(8), labels={"pool": "a"})
    made.node("b", gpus(8), taints=[{"key": "x", "effect": "NoSchedule"}])
    made.job("p", nodeSelector={"pool": "b"})
    made.job("q", nodeSelector={"pool": "a"})
    made.job("r", tolerations=[{"operator": "Exists"}], nodeSelector={"pool": "a"}, containers=cpu("1000"))
    made.job("s", request(count=8), tolerations=[{"operator": "Exists"}])
    line = WaitingLine(made.cluster)
    assert decide(made, line) == ["q@a", "s@b"]
    assert waiting(line) == ["p", "r"]


def test_explanations_are_worked_out_once_a_kind_and_state() -> None:
    made = world("a")
    for name in ("p", "q"):
        made.job(name, request(count=8))
    line = WaitingLine(made.cluster)
    decide(made, line)
    first = line.explain(demand(made, "p"))
    counting = Counting(made)
    second = line.explain(demand(made, "q"))
    assert counting.views == 0
    assert isinstance(first, Wait)
    assert isinstance(second, Wait)
    assert first.text == second.text == "1 node, 4 free GPUs; need 8 on one node; largest free set is 4 (a)"
    assert (first.demand.pods[0].metadata.name, second.demand.pods[0].metadata.name) == ("p", "q")
    made.node("b", gpus(6))
    third = line.explain(demand(made, "p"))
    assert isinstance(third, Wait)
    assert third.text == "2 nodes, 10 free GPUs; need 8 on one node; largest free set is 6 (b)"


def test_a_pod_that_is_resized_while_it_is_nominated_is_tried_everywhere_anew() -> None:
    made = world()
    made.classes()
    for name in ("a", "b"):
        made.node(name, gpus(4), allocatable=SMALL)
    line = WaitingLine(made.cluster)
    made.claim("c")
    made.pod("p", "c", containers=cpu("9"), status={"nominatedNodeName": "gone"})
    assert decide(made, line) == []
    made.pod("p", "c", containers=cpu("8"), status={"nominatedNodeName": "gone"})
    assert decide(made, line) == ["p@a"]


def test_the_nominated_node_comes_first_among_those_that_are_new_too() -> None:
    """R32."""
    made = world()
    made.classes()
    made.node("x", gpus(4), allocatable={"cpu": "0", "pods": "0"})
    line = WaitingLine(made.cluster)
    made.claim("c")
    made.pod("p", "c", status={"nominatedNodeName": "b"})
    assert decide(made, line) == []
    for name in ("a", "b"):
        made.node(name, gpus(4), allocatable=SMALL)
    assert decide(made, line) == ["p@b"]
