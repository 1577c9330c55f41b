"""Why nothing fits, in numbers; and what no fleet could serve."""

from __future__ import annotations

import pytest

from driver.allocator.decide import explain, place
from driver.allocator.problem import ClaimAsk, ProblemFault
from tests.unit.allocator.cases import (
    DRIVER,
    ask,
    device,
    device_class,
    devices_of,
    fleet_of,
    gpus,
    hold,
    missed,
    policy,
    problem,
    request,
    selector,
)


def test_the_nearest_miss_of_the_islands_story() -> None:
    """Ten islands, two free in each: what the event says."""
    fleet = fleet_of({f"node-{number}": devices_of("hgx-a100-4x2") for number in range(5)})
    for name in fleet.nodes:
        hold(fleet, name, [0, 1, 4, 5])
    miss = missed(fleet, ask(request(count=4), config=[policy(scope="nvlink", mode="required")]))
    assert miss.text == (
        "5 nodes, 20 free GPUs; need 4 on one NVLink island; largest free set is 2 "
        "(node-0 island 0, node-0 island 1, node-1 island 0, ...)"
    )
    assert (miss.nodes, miss.free, miss.taken, miss.need, miss.largest) == (5, 20, 20, 4, 2)


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        ("nvlinkQuad", "need 3 on one NVLink quad; largest free set is 2 (a quad 0, a quad 1)"),
        ("nvlinkPair", "need 3 on one NVLink pair; largest free set is 2 (a pair 1, a pair 3)"),
        ("uuid", "need 3 on one value of uuid; largest free set is 1 (a uuid 2, a uuid 3, a uuid 6, ...)"),
    ],
)
def test_misses_name_the_sets_of_a_constraint(constraint: str, words: str) -> None:
    fleet = fleet_of({"a": devices_of("hgx-a100-4x2")})
    hold(fleet, "a", [0, 1, 4, 5])
    assert words in missed(fleet, ask(request(count=3), constraints=[{"matchAttribute": f"{DRIVER}/{constraint}"}])).text


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ("numa", "need 5 on one NUMA node; largest free set is 4 (a NUMA node 0, a NUMA node 1)"),
        ("pcie", "need 5 on one PCIe root; largest free set is 4 (a root 0, a root 1)"),
    ],
)
def test_misses_name_the_sets_of_a_scope(scope: str, words: str) -> None:
    fleet = fleet_of({"a": devices_of("hgx-a100-4x2")})
    assert words in missed(fleet, ask(request(count=5), config=[policy(scope=scope, mode="required")])).text


def test_a_miss_without_any_node() -> None:
    assert missed(fleet_of({}), ask(request())).text == "0 nodes, 0 free GPUs; no device of theirs matches request gpus"


def test_claims_that_fit_alone_but_not_together() -> None:
    fleet = fleet_of({"a": gpus(3)})
    miss = missed(fleet, ask(request(count=2), name="one"), ask(request(count=2), name="two"))
    assert miss.is_together
    assert "no node has room for all of them together" in miss.text


def test_class_selectors_come_first_and_a_failing_one_spares_other_nodes() -> None:
    """A device on which a selector fails is not matched; the miss says which and why."""
    classes = {"gpu": device_class(selectors=[selector("type == gpu")])}
    fleet = fleet_of({"a": [device("nic", type="nic")], "b": gpus(1, type="gpu")})
    asked = ask(request(selectors=[selector("model == x")]))
    assert place(fleet, problem(asked, classes=classes)) is None
    assert "b/gpu-0: no such key: model" in explain(fleet, problem(asked, classes=classes)).text


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (ask(request(deviceClassName="nope")), "DeviceClass nope does not exist"),
        (ask(request(count=33)), "asks for 33 devices, an allocation holds at most 32"),
        (ask({"name": "both"}), "either exactly or firstAvailable is needed"),
        (ask(request(allocationMode="Some")), "allocationMode Some"),
        (ask(request(), constraints=[{"requests": ["gpus"]}]), "needs matchAttribute or distinctAttribute"),
        (ask(request(), config=[policy(scope="galaxy")]), '"galaxy" is not one of nvlink, pcie, numa, node'),
        (ask(request(capacity={"requests": {"memory": "lots"}})), "is no Kubernetes quantity"),
    ],
    ids=["missing class", "33 devices", "no request", "unknown mode", "empty constraint", "bad policy", "bad quantity"],
)
def test_what_no_fleet_can_serve_is_said(claim: ClaimAsk, words: str) -> None:
    with pytest.raises(ProblemFault, match="claim") as caught:
        problem(claim)
    assert words in str(caught.value)


def test_a_hopeless_search_ends_and_says_that_it_cannot_tell() -> None:
    """Twelve devices of six values each way, of which no six differ both ways: the steps end before a proof."""
    devices = [device(f"gpu-{n:02}", a=n % 6, b=(n * 5 + n // 6) % 6 % 5 + (n == 40), c=n) for n in range(40)]
    fleet = fleet_of({"a": [*devices, device("gpu-99", a=0, b=9, c=99)]})
    constraints = [{"distinctAttribute": f"{DRIVER}/a"}, {"distinctAttribute": f"{DRIVER}/b"}]
    one = {"name": "last", "exactly": {"deviceClassName": "gpu", "selectors": [selector("a == 0")]}}
    claim = ask(*(request(f"r{n}", count=1) for n in range(5)), one, constraints=constraints)
    found = place(fleet, problem(claim))
    assert found is not None or missed(fleet, claim).undecided in (0, 1)


def test_counting_alone_ends_a_search_that_could_never_succeed() -> None:
    """Six devices that all differ cannot come from five values: no search, and a sure answer."""
    fleet = fleet_of({"a": [device(f"gpu-{n:02}", a=n % 5, b=n % 7, c=n) for n in range(40)]})
    constraints = [{"distinctAttribute": f"{DRIVER}/a"}, {"distinctAttribute": f"{DRIVER}/b"}]
    miss = missed(fleet, ask(*(request(f"r{n}", count=2) for n in range(3)), constraints=constraints))
    assert miss.undecided == 0


def test_all_of_more_than_a_claim_can_have_is_said() -> None:
    fleet = fleet_of({"a": gpus(40)})
    assert missed(fleet, ask(request(allocationMode="All"))).text == (
        "1 node, 40 free GPUs; need all on one node; largest free set is 40 (a); a claim can have 32 at most"
    )
