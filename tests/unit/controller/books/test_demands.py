"""Which pods wait for which claims, together with whom, in which order, and where they must go."""

from __future__ import annotations

from driver.controller.books.demands import Demand, DemandBook
from driver.controller.books.pods import ClaimKey, PodBook
from driver.controller.objects.life import parse_time_s
from driver.controller.objects.model import Claim, Pod
from driver.kube.changes import Change, ChangeKind
from tests.unit.controller.world import World, tied_to, world


def demand(made: World, pod: str) -> Demand:
    found = made.cluster.demand_of(made.get(Pod, pod).metadata.uid)
    assert found is not None
    return found


def test_all_claims_of_a_pod_are_placed_together_in_the_order_of_its_spec() -> None:
    made = world("a")
    for name in ("x", "y", "z"):
        made.claim(name)
    made.pod("p", "z", "x", "y")
    assert made.demands() == [(["p"], ["z", "x", "y"])]


def test_pods_that_share_a_claim_are_placed_together_over_any_number_of_steps() -> None:
    """R6: p and r share nothing, but both share with q."""
    made = world("a")
    for name in ("pq", "qr", "alone"):
        made.claim(name)
    made.pod("p", "pq")
    made.pod("other", "alone")
    made.pod("r", "qr")
    made.pod("q", "qr", "pq", created="2027-01-15T06:00:00Z")
    assert made.demands() == [(["q", "p", "r"], ["qr", "pq"]), (["other"], ["alone"])]


def test_a_demand_falls_apart_when_what_joined_it_goes() -> None:
    made = world("a")
    for name in ("pq", "qr"):
        made.claim(name)
    made.pod("p", "pq")
    made.pod("q", "pq", "qr")
    made.pod("r", "qr")
    assert len(made.demands()) == 1
    made.remove(Pod, "q")
    assert made.demands() == [(["p"], ["pq"]), (["r"], ["qr"])]


def test_a_claim_that_is_allocated_joins_nobody_but_fixes_the_node() -> None:
    made = world("a")
    for name in ("shared", "x", "y"):
        made.claim(name)
    made.allocate("shared", "a", "gpu-0")
    made.pod("p", "shared", "x")
    made.pod("q", "shared", "y")
    assert made.demands() == [(["p"], ["x"]), (["q"], ["y"])]
    assert {each.node for each in made.cluster.demands()} == {"a"}


def test_a_pod_whose_claims_are_all_allocated_does_not_wait_for_us() -> None:
    made = world("a")
    made.claim("c")
    made.pod("p", "c")
    made.allocate("c", "a", "gpu-0")
    assert made.demands() == []
    made.change_claim("c", status={})
    assert made.demands() == [(["p"], ["c"])]


def test_a_pod_waits_for_claims_to_exist() -> None:
    """With half of its claims it cannot run, and would hold devices for nothing."""
    made = world("a")
    made.claim("there")
    made.pod("p", "there", "missing")
    made.pod("q", "there", made=["own"], status={"resourceClaimStatuses": []})
    assert made.demands() == []
    made.claim("missing")
    assert made.demands() == [(["p"], ["there", "missing"])]
    made.pod("q", "there", made=["own"])
    made.claim("own", owner="q")
    assert made.demands() == [(["p", "q"], ["there", "missing", "own"])]
    made.remove(Claim, "missing")
    assert made.demands() == [(["q"], ["there", "own"])]


def test_a_claim_that_turned_out_not_to_be_needed_is_not_waited_for() -> None:
    made = world("a")
    made.claim("c")
    statuses = [{"name": "own"}]
    made.pod("p", "c", made=["own"], status={"resourceClaimStatuses": statuses})
    assert made.demands() == [(["p"], ["c"])]


def test_a_reserved_claim_is_no_longer_asked_for_and_fixes_the_node() -> None:
    made = world("a")
    for name in ("x", "y"):
        made.claim(name)
    made.pod("p", "x", "y")
    made.cluster.reserve(made.get(Claim, "x").metadata.uid, (), "a")
    assert (made.demands(), demand(made, "p").node) == ([(["p"], ["y"])], "a")
    made.cluster.cancel(made.get(Claim, "x").metadata.uid)
    assert (made.demands(), demand(made, "p").node) == ([(["p"], ["x", "y"])], None)


def test_a_pod_with_a_node_fixes_it_for_all_who_share_with_it() -> None:
    made = world("a", "b")
    made.claim("c")
    made.pod("p", "c")
    made.pod("q", "c", nodeName="b")
    assert demand(made, "p").node == "b"


def test_two_nodes_are_a_conflict_that_is_told() -> None:
    made = world("a", "b")
    for name in ("x", "y"):
        made.claim(name)
    made.allocate("x", "a", "gpu-0")
    made.pod("p", "x", "y", nodeName="b")
    assert demand(made, "p").conflict == "pod p is on node b, but claim x is on node a"


def test_an_allocation_that_leaves_a_choice_is_kept_as_a_selector() -> None:
    """As network devices have them, by a driver that is not ours."""
    made = world("a", "b", "c")
    for name in ("net", "free", "gpu"):
        made.claim(name)
    results = [{"request": "r", "driver": "net.example.com", "pool": "p", "device": "d"}]
    made.change_claim("net", status={"allocation": {"devices": {"results": results}, "nodeSelector": tied_to("a", "b")}})
    made.change_claim("free", status={"allocation": {"devices": {"results": results}}})
    made.pod("p", "net", "free", "gpu")
    found = demand(made, "p")
    assert (found.node, [each.node_selector_terms[0].match_fields[0].values for each in found.selectors]) == (
        None,
        [("a", "b")],
    )


def test_priority_comes_before_age() -> None:
    made = world("a")
    for name, priority, created in [
        ("young", 0, "2027-01-15T07:30:00Z"),
        ("old", 0, "2027-01-15T07:00:00Z"),
        ("high", 1000, "2027-01-15T07:45:00Z"),
        ("low", -5, "2027-01-15T01:00:00Z"),
    ]:
        made.job(name, priority=priority, created=created)
    assert [pods for pods, _ in made.demands()] == [["high"], ["old"], ["young"], ["low"]]


def test_a_demand_is_as_important_as_its_first_pod_and_as_old_as_its_oldest() -> None:
    made = world("a")
    made.claim("c")
    made.pod("high", "c", priority=7, created="2027-01-15T07:30:00Z")
    old = made.pod("old", "c", created="2027-01-15T07:00:00Z")
    found = demand(made, "high")
    assert [pod.metadata.name for pod in found.pods] == ["high", "old"]
    assert (found.priority, found.key, found.since_s) == (7, old.metadata.uid, parse_time_s("2027-01-15T07:00:00Z"))


def test_a_demand_that_nothing_touched_is_the_same_object() -> None:
    """What waits for long costs nothing while others come and go."""
    made = world("a")
    made.job("p")
    made.job("q")
    before = demand(made, "p")
    made.pod("q", "q", priority=1)
    made.remove(Claim, "q")
    assert demand(made, "p") is before


def test_a_pod_that_nobody_knows_has_no_demand() -> None:
    assert world("a").cluster.demand_of("nobody") is None


def test_what_has_changed_is_known_by_key() -> None:
    made = world("a")
    made.job("p")
    made.job("q")
    book = made.cluster.demand_book
    before = book.version
    p, q = demand(made, "p"), demand(made, "q")
    assert book.changed_since(before) == frozenset()
    made.remove(Pod, "p")
    made.job("r")
    assert book.version > before
    assert book.changed_since(before) == frozenset({p.key, demand(made, "r").key})
    assert (book.find(p.key), book.find(q.key)) == (None, q)
    assert book.changed_since(-1) is None


class _CountingPods(PodBook):
    """Says how often it was asked who uses a claim."""

    asked = 0

    def users(self, key: ClaimKey) -> tuple[str, ...]:
        self.asked += 1
        return super().users(key)


def test_who_shares_a_claim_is_asked_once_however_many_they_are() -> None:
    """Else a Deployment of thousands that share one claim costs millions of steps for each pod that comes."""
    w = world()
    claim = w.claim("shared")
    pods = _CountingPods(frozenset({"default-scheduler"}))
    book = DemandBook(pods, w.cluster.claim_book)
    for number in range(50):
        pod = w.pod(f"pod-{number}", "shared")
        pods.note(Change(kind=ChangeKind.ADDED, item=pod))
        book.touch([pod.metadata.uid])
    (demand,) = book.in_order()
    assert len(demand.pods) == 50
    assert demand.claims == (claim,)
    assert pods.asked == 1
