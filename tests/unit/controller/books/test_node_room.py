"""What a node has left is what it has, less what its pods take."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.controller.books.node_room import NodeRoom, NodeRooms, Shortage, Standing, find_collision, format_amount
from driver.controller.objects.pod_use import HostPort, PodUse
from tests.unit.controller.fit_cases import asks_for, pod

SMALL = {"cpu": "4", "memory": "8Gi", "pods": "3"}


def use(cpu: int = 0, *, ports: tuple[HostPort, ...] = (), priority: int = 0) -> PodUse:
    return PodUse(requests=(("cpu", cpu),) if cpu else (), ports=ports, priority=priority)


def rooms(*put: tuple[str, PodUse, Standing]) -> NodeRooms:
    """One node of 4 CPUs and three places, with these pods."""
    made = NodeRooms()
    made.set_node("node-a", SMALL)
    for uid, each, standing in put:
        made.put(uid, each, "node-a", standing)
    return made


def short(made: NodeRooms, ask: PodUse, *, pods: int = 1, but: frozenset[str] = frozenset()) -> list[Shortage]:
    return made.room("node-a").list_shortages(ask, pods, but)


def test_an_empty_node_has_all_that_it_has() -> None:
    assert short(rooms(), use(4000)) == []
    assert short(rooms(), use(4001)) == [Shortage("cpu", 4001, 4000, 4000)]


def test_bound_pods_take_room() -> None:
    made = rooms(("a", use(1500), Standing.BOUND), ("b", use(1500), Standing.BOUND))
    assert short(made, use(1000)) == []
    assert short(made, use(1001)) == [Shortage("cpu", 1001, 1000, 4000)]


def test_every_pod_takes_a_place() -> None:
    made = rooms(("a", use(), Standing.BOUND), ("b", use(), Standing.BOUND))
    assert short(made, use()) == []
    assert short(made, use(), pods=2) == [Shortage("pods", 2, 1, 3)]


def test_what_the_node_does_not_have_is_short() -> None:
    assert short(rooms(), PodUse(requests=(("example.com/x", 1),))) == [Shortage("example.com/x", 1, 0, 0)]


def test_a_node_that_is_not_known_has_no_room() -> None:
    assert [each.resource for each in NodeRooms().room("nowhere").list_shortages(use(1), 1, frozenset())] == ["pods", "cpu"]


def test_pods_that_are_expected_count_whatever_their_priority() -> None:
    made = rooms(("a", use(3000, priority=-5), Standing.EXPECTED))
    assert short(made, use(2000, priority=9)) == [Shortage("cpu", 2000, 1000, 4000)]


@pytest.mark.parametrize(("priority", "counts"), [(1, False), (2, True), (3, True)])
def test_nominated_pods_count_for_pods_of_no_higher_priority(priority: int, counts: bool) -> None:
    """R32: a preemptor's place is not given to others below it."""
    made = rooms(("a", use(3000, priority=priority), Standing.NOMINATED))
    assert bool(short(made, use(2000, priority=2))) is counts


def test_a_pod_is_not_in_its_own_way() -> None:
    made = rooms(("a", use(3000), Standing.EXPECTED), ("b", use(3000), Standing.NOMINATED))
    assert short(made, use(3000), but=frozenset({"a", "b"})) == []


def test_a_pod_that_is_bound_moves_from_expected_to_bound() -> None:
    made = rooms(("a", use(3000), Standing.EXPECTED))
    made.put("a", use(3000), "node-a", Standing.BOUND)
    assert short(made, use(1000)) == []
    assert short(made, use(1001)) != []


def test_a_pod_that_moves_leaves_where_it_was() -> None:
    made = rooms(("a", use(3000), Standing.NOMINATED))
    made.set_node("node-b", SMALL)
    made.put("a", use(3000), "node-b", Standing.NOMINATED)
    assert short(made, use(4000)) == []
    assert made.room("node-b").list_shortages(use(4000), 1, frozenset()) != []


def test_a_pod_that_goes_leaves_its_room() -> None:
    port = HostPort("0.0.0.0", "TCP", 80)
    made = rooms(("a", use(3000, ports=(port,)), Standing.BOUND))
    made.drop("a")
    made.drop("a")
    assert short(made, use(4000), pods=3) == []
    assert made.room("node-a").port_in_use(use(ports=(port,)), frozenset()) is None


def test_pods_told_before_their_node_count_when_it_comes() -> None:
    made = NodeRooms()
    made.put("a", use(3000), "node-a")
    made.set_node("node-a", SMALL)
    assert short(made, use(2000)) == [Shortage("cpu", 2000, 1000, 4000)]


def test_a_node_that_comes_back_still_has_its_pods() -> None:
    made = rooms(("a", use(3000), Standing.BOUND))
    made.drop_node("node-a")
    assert short(made, use()) == [Shortage("pods", 1, 0, 0)]
    made.set_node("node-a", SMALL)
    assert short(made, use(2000)) == [Shortage("cpu", 2000, 1000, 4000)]


def test_a_node_that_shrinks_is_short_at_once() -> None:
    made = rooms(("a", use(3000), Standing.BOUND))
    made.set_node("node-a", {"cpu": "2", "pods": "3"})
    assert short(made, use(1)) == [Shortage("cpu", 1, 0, 2000)]


PORTS = [
    ("the same port", HostPort("0.0.0.0", "TCP", 80), HostPort("0.0.0.0", "TCP", 80), True),
    ("another port", HostPort("0.0.0.0", "TCP", 80), HostPort("0.0.0.0", "TCP", 81), False),
    ("another protocol", HostPort("0.0.0.0", "TCP", 80), HostPort("0.0.0.0", "UDP", 80), False),
    ("two addresses", HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.2", "TCP", 80), False),
    ("all addresses against one", HostPort("0.0.0.0", "TCP", 80), HostPort("10.0.0.2", "TCP", 80), True),
    ("one address against all", HostPort("10.0.0.1", "TCP", 80), HostPort("0.0.0.0", "TCP", 80), True),
]


@pytest.mark.parametrize(("held", "wanted", "collide"), [case[1:] for case in PORTS], ids=[case[0] for case in PORTS])
@pytest.mark.parametrize("standing", list(Standing))
def test_ports(held: HostPort, wanted: HostPort, collide: bool, standing: Standing) -> None:
    made = rooms(("a", use(ports=(held,)), standing))
    found = made.room("node-a").port_in_use(use(ports=(wanted,)), frozenset())
    assert found == (wanted if collide else None)
    assert (find_collision([held, wanted]) is not None) is collide


def test_one_of_two_holders_of_an_address_goes_and_the_port_stays_taken() -> None:
    """Two addresses may share a port; a port that is held twice by mistake is held until both go."""
    port = HostPort("0.0.0.0", "TCP", 80)
    made = rooms(("a", use(ports=(port,)), Standing.BOUND), ("b", use(ports=(port,)), Standing.BOUND))
    made.drop("a")
    assert made.room("node-a").port_in_use(use(ports=(port,)), frozenset()) == port


NOTED = [
    ("bound", {"nodeName": "node-a"}, {}, None, True),
    ("ended well", {"nodeName": "node-a"}, {"phase": "Succeeded"}, None, False),
    ("ended badly", {"nodeName": "node-a"}, {"phase": "Failed"}, None, False),
    ("waits", {}, {}, None, False),
    ("waits, and its devices are there", {}, {}, "node-a", True),
    ("waits, and is nominated", {}, {"nominatedNodeName": "node-a"}, None, True),
    ("is bound elsewhere than it was expected", {"nodeName": "node-b"}, {}, "node-a", False),
    ("is expected elsewhere than it was nominated", {}, {"nominatedNodeName": "node-a"}, "node-b", False),
]


@pytest.mark.parametrize(
    ("spec", "status", "expected", "counts"), [case[1:] for case in NOTED], ids=[case[0] for case in NOTED]
)
def test_which_pods_count(spec: dict[str, str], status: dict[str, str], expected: str | None, counts: bool) -> None:
    made = rooms(("uid-job", use(1), Standing.BOUND))
    made.note_pod(pod("job", status=status, **spec), expected)
    assert bool(short(made, use(), pods=3)) is counts


def test_a_pods_requests_count_when_it_is_noted() -> None:
    made = rooms()
    made.note_pod(asks_for("a", cpu="3"), "node-a")
    assert short(made, use(2000)) == [Shortage("cpu", 2000, 1000, 4000)]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30))
def test_after_any_changes_the_room_is_what_a_fresh_count_says(seed: int) -> None:
    rng = random.Random(seed)
    uses = [use(500 * n, ports=(HostPort("0.0.0.0", "TCP", n),) if n % 2 else (), priority=n) for n in range(4)]
    made, known = rooms(), dict[str, tuple[PodUse, Standing]]()
    for _ in range(40):
        uid = f"pod-{rng.randrange(6)}"
        if rng.random() < 0.3:
            made.drop(uid)
            known.pop(uid, None)
        else:
            known[uid] = rng.choice(uses), rng.choice(list(Standing))
            made.put(uid, known[uid][0], "node-a", known[uid][1])
    fresh = rooms(*((uid, each, standing) for uid, (each, standing) in known.items()))
    for ask in uses:
        assert short(made, ask) == short(fresh, ask)
        assert made.room("node-a").port_in_use(ask, frozenset()) == fresh.room("node-a").port_in_use(ask, frozenset())


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 2500, "2.5"),
        ("cpu", 64000, "64"),
        ("cpu", 1, "0.001"),
        ("memory", 64 << 30, "64Gi"),
        ("memory", 1536 << 20, "1.5Gi"),
        ("memory", 512 << 20, "512Mi"),
        ("memory", 2048, "2Ki"),
        ("memory", 100, "100"),
        ("hugepages-2Mi", 4 << 20, "4Mi"),
        ("example.com/x", 3, "3"),
    ],
)
def test_amounts_are_written_for_people(resource: str, amount: int, text: str) -> None:
    assert format_amount(resource, amount) == text


def test_a_room_of_nothing_is_forgotten() -> None:
    """10,000 nodes that come and go leave nothing behind."""
    made = rooms(("a", use(1), Standing.BOUND), ("b", use(1), Standing.EXPECTED))
    made.drop_node("node-a")
    made.drop("a")
    made.drop("b")
    assert not made.room("node-a").capacity
    assert isinstance(made.room("node-a"), NodeRoom)
