"""After any row of changes the mirror is what one built anew from the objects is, and what a slow reader finds in them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.allocator.hold import HoldRule, Holds
from driver.api.fence import CONTROLLER, SCHEDULER
from driver.api.resource_v1 import ResourceSlice
from driver.controller.books.demands import Demand
from driver.controller.books.mirror import Cluster
from driver.controller.deciding.decision import Decision, Place, Wait, build_waiting, decide
from driver.controller.deciding.question import Question, build_question
from driver.controller.deciding.waiting_line import WaitingLine
from driver.controller.objects.model import Claim, DeviceClass, Node, Pod
from driver.controller.objects.taint_rules import DeviceTaintRule
from driver.kube.changes import Change, ChangeKind
from tests.unit.controller.books.naive import Group, read_free, read_groups
from tests.unit.controller.world import DRIVER, NOW_S, World, gpus, request, world

NODES = ("n0", "n1", "n2")
PODS = tuple(f"p{number}" for number in range(8))
CLAIMS = tuple(f"c{number}" for number in range(8))
SMALL = {"cpu": "8", "memory": "16Gi", "pods": "3"}
Numbers = random.Random


class Walk:
    """Random changes to a world, with a line that decides in between."""

    def __init__(self, numbers: Numbers, rule: HoldRule | None = None) -> None:
        self.numbers = numbers
        self.world = world()
        self.now_s = NOW_S
        self.holds = None if rule is None else Holds(rule)
        """Of those who decide anew each time; the line has its own."""
        self.line = WaitingLine(self.world.cluster, None if rule is None else Holds(rule))
        often: list[Callable[[], None]] = [self.put_pod, self.put_claim, self.decide, self.settle, self.cancel, self.clear]
        seldom: list[Callable[[], None]] = [
            self.put_node,
            self.put_slice,
            self.put_class,
            self.allocate,
            lambda: self.remove(Node, NODES),
            lambda: self.remove(ResourceSlice, [f"00000-{name}" for name in NODES]),
            lambda: self.remove(Pod, PODS),
            lambda: self.remove(Claim, CLAIMS),
            lambda: self.remove(DeviceClass, ["late"]),
            lambda: self.world.rule(
                "rule", **self.numbers.choice([{"pool": "n0", "device": "gpu-0"}, {}, {"device": "gpu-1"}])
            ),
            lambda: self.remove(DeviceTaintRule, ["rule"]),
        ]
        self.steps = [*often, *often, *often, self.put_slice, self.put_slice, self.put_node, *seldom]
        for name in NODES:
            self.world.node(name, gpus(4), allocatable=SMALL)
        for _ in range(12):
            self.put_claim()
            self.put_pod()

    def remove(self, kind: Any, names: Any) -> None:
        name = self.numbers.choice(names)
        if (kind.__name__, name) in self.world.objects:
            self.world.remove(kind, name)

    def put_node(self) -> None:
        labels = self.numbers.choice([{}, {"pool": "gpu"}])
        allocatable = self.numbers.choice([SMALL, SMALL | {"cpu": "2"}])
        self.world.node(self.numbers.choice(NODES), labels=labels, allocatable=allocatable)

    def put_slice(self) -> None:
        value = self.numbers.choice([CONTROLLER] * 4 + [SCHEDULER])
        self.world.slice(
            self.numbers.choice(NODES),
            gpus(self.numbers.choice([4, 4, 4, 2]), value=value),
            of=self.numbers.choice([1] * 5 + [2]),
            generation=self.numbers.randint(1, 2),
        )

    def put_pod(self) -> None:
        name, numbers = self.numbers.choice(PODS), self.numbers
        more: dict[str, Any] = numbers.choice(
            [{}] * 8 + [{"nodeName": numbers.choice(NODES)}, {"schedulingGates": [{"name": "g"}]}, {"schedulerName": "x"}]
        )
        more = more | {"nodeSelector": numbers.choice([{}, {}, {"pool": "gpu"}]), "priority": numbers.choice([0, 0, 5])}
        more["containers"] = [{"name": "m", "resources": {"requests": {"cpu": numbers.choice(["1", "3"])}}}]
        more["status"] = {"nominatedNodeName": numbers.choice(["", "", "", *NODES])}
        more["created"] = f"2027-01-15T07:{numbers.randint(0, 59):02}:00Z"
        known = self.world.objects.get(("Pod", name))
        if known is None:
            claims = numbers.sample(CLAIMS, numbers.choice([0, 1, 1, 1, 2]))
        else:
            claims = [each.resource_claim_name for each in known.spec.resource_claims]
            more["created"] = known.metadata.creation_timestamp
        self.world.pod(name, *claims, **more)

    def put_claim(self) -> None:
        name = self.numbers.choice(CLAIMS)
        if ("Claim", name) not in self.world.objects:
            self.world.claim(
                name,
                request(count=self.numbers.choice([1, 1, 2, 3, 4]), device_class=self.numbers.choice(["gpu"] * 5 + ["late"])),
            )

    def put_class(self) -> None:
        self.world.classes({"late": self.numbers.choice([{}, {"fromTheFuture": 1}, {"selectors": []}])})

    def allocate(self) -> None:
        name = self.numbers.choice(CLAIMS)
        if ("Claim", name) in self.world.objects:
            devices = self.numbers.sample(["gpu-0", "gpu-1", "gpu-2"], self.numbers.randint(1, 2))
            self.world.allocate(name, self.numbers.choice(NODES), *devices, driver=self.numbers.choice([DRIVER, DRIVER, "x"]))

    def clear(self) -> None:
        name = self.numbers.choice(CLAIMS)
        if ("Claim", name) in self.world.objects:
            self.world.change_claim(name, status={})

    def decide(self) -> None:
        """A round of the line: what it places is reserved."""
        self.now_s += self.numbers.choice([0.0, 1.0, 60.0, 600.0])
        check_line(self)

    def settle(self) -> None:
        for name in CLAIMS:
            claim = self.world.objects.get(("Claim", name))
            reservation = None if claim is None else self.world.cluster.claim_book.reserved.get(claim.metadata.uid)
            if reservation is not None:
                self.world.allocate(name, reservation.node, *(each.device.device for each in reservation.holdings))

    def cancel(self) -> None:
        for uid in list(self.world.cluster.claim_book.reserved):
            self.world.cluster.cancel(uid)


def build_anew(made: World, numbers: Numbers) -> Cluster:
    """A mirror of the same objects, told in any order, with the same reservations."""
    fresh = World(cluster=Cluster(DRIVER))
    items = list(made.objects.values())
    numbers.shuffle(items)
    for item in items:
        fresh.tell(Change(kind=ChangeKind.ADDED, item=item))
    for uid, reservation in made.cluster.claim_book.reserved.items():
        fresh.cluster.reserve(uid, reservation.holdings, reservation.node)
    return fresh.cluster


def describe(cluster: Cluster) -> dict[str, Any]:
    """Everything that a decision goes by, in values that compare."""
    fleet = cluster.fleet
    return {
        "demands": cluster.demands(),
        "nodes": {
            name: (node.ids, node.is_whole, node.ours, node.shape.healthy, fleet.taken(name))
            for name, node in fleet.nodes.items()
        },
        "left out": dict(cluster.pools_left_out),
        "users": {uid: {pod.metadata.uid for pod in cluster.users(claim)} for uid, claim in cluster.claims.items()},
        "decisions": [_words(decide(cluster, demand, now_s=NOW_S)) for demand in cluster.demands()],
    }


def _words(decision: Decision) -> object:
    if isinstance(decision, Place):
        return [(grant.claim.metadata.name, grant.allocation, grant.reserved_for) for grant in decision.grants]
    return decision.text if isinstance(decision, Wait) else (decision.reason, decision.is_fault)


def check(walk: Walk) -> None:
    made = walk.world
    assert read_free(made) == made.free()
    groups = {_group(demand) for demand in made.cluster.demands()}
    assert groups == {_with_one_node(group) for group in read_groups(made)}
    assert describe(made.cluster) == describe(build_anew(made, walk.numbers))
    for uid in check_line(walk):
        made.cluster.cancel(uid)


def check_line(walk: Walk) -> list[str]:
    """A line that remembers decides as if each demand were decided for itself, one after the other, by a mirror made anew.

    The uids of the claims that have a place now.
    """
    anew = build_anew(walk.world, walk.numbers)
    demands = list(anew.demands())
    expected = decide_anew(walk, anew, demands)
    places: list[object] = []
    reserved: list[str] = []
    for decision in walk.line.decide_all(walk.now_s):
        if isinstance(decision, Place):
            places.append(_take(walk.world.cluster, decision))
            reserved += [grant.claim.metadata.uid for grant in decision.grants]
    assert places == [each for each in expected if isinstance(each, list)]
    left = {key: (each.reason, each.is_fault) for key, each in walk.line.left_alone.items()}
    assert left == {demand.key: each for demand, each in zip(demands, expected, strict=True) if isinstance(each, tuple)}
    waits = [demand.key for demand, each in zip(demands, expected, strict=True) if isinstance(each, str)]
    assert [demand.key for demand in walk.line.waiting] == waits
    return reserved


def decide_anew(walk: Walk, anew: Cluster, demands: Sequence[Demand]) -> list[object]:
    """The decisions in words, each with all that the ones before have taken and with the holds as they are then."""
    rest = {demand.key: demand for demand in demands}

    def hold() -> None:
        questions = (build_question(demand, anew.judge) for demand in rest.values())
        waiting = [build_waiting(anew, each, walk.now_s) for each in questions if isinstance(each, Question)]
        if walk.holds is not None:
            walk.holds.update(anew.fleet, waiting)

    hold()
    expected = []
    for demand in demands:
        decision = decide(anew, demand, holds=walk.holds, now_s=walk.now_s)
        expected.append(_take(anew, decision))
        if isinstance(decision, Place):
            del rest[demand.key]
            if walk.holds is not None and walk.holds.key == demand.key:
                hold()
    return expected


def _take(cluster: Cluster, decision: Decision) -> object:
    if isinstance(decision, Place):
        World(cluster=cluster).reserve(decision)
    return _words(decision)


def _group(demand: Any) -> tuple[frozenset[str], frozenset[str], str | None, bool]:
    return (
        frozenset(pod.metadata.name for pod in demand.pods),
        frozenset(claim.metadata.name for claim in demand.claims),
        demand.node if not demand.conflict else None,
        bool(demand.conflict),
    )


def _with_one_node(group: Group) -> tuple[frozenset[str], frozenset[str], str | None, bool]:
    only = next(iter(group.nodes)) if len(group.nodes) == 1 else None
    return group.pods, group.claims, only, len(group.nodes) > 1


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32), steps=st.lists(st.integers(0, 1 << 16), max_size=40))
def test_the_mirror_is_what_the_objects_say(seed: int, steps: list[int]) -> None:
    walk = Walk(random.Random(seed))
    for number in steps:
        walk.steps[number % len(walk.steps)]()
    check(walk)


RULES = {
    "no hold rule": None,
    "holding": HoldRule(after_s=1200.0, hold_patience_s=5000.0),
    "holding and sparing": HoldRule(after_s=1200.0, hold_patience_s=5000.0, spare_patience_s=20_000.0),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize("seed", range(6))
def test_a_long_walk(seed: int, rule: HoldRule | None) -> None:
    """Looked at after each step: a change that is put right by the next one is a fault all the same."""
    walk = Walk(random.Random(seed), rule)
    for _ in range(60):
        walk.numbers.choice(walk.steps)()
        check(walk)
