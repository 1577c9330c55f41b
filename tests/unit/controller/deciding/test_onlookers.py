"""Admin access to GPUs that claims divide: given by the controller once kube-scheduler has found no place, on any node."""

from __future__ import annotations

from typing import Any

import pytest

from driver.allocator.decide import place as find_place
from driver.allocator.problem import Problem
from driver.api.fence import CONTROLLER, DRAINING, SCHEDULER
from driver.controller.deciding.decision import LeaveAlone, Place
from driver.controller.deciding.waiting_line import WaitingLine
from driver.controller.objects.model import Pod
from tests.unit.controller.deciding.decisions import left_alone, place, wait
from tests.unit.controller.world import NOW_S, World, devices_in, gpus, request, world

REFUSED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]}
GATED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}
EVERYTHING = [{"operator": "Exists"}]


def watch(**fields: Any) -> dict[str, Any]:
    """The request of a monitor, as it is written for any driver of GPUs."""
    return request(allocationMode="All", adminAccess=True, **fields)


def busy(*, value: str = SCHEDULER) -> World:
    """A node of two GPUs, the first of which is given in parts, the second whole."""
    made = world()
    made.node("a")
    made.divide("a", value=value)
    for name, device in (("part", "gpu-0-mig-1g10gb-19-6"), ("whole", "gpu-1")):
        made.claim(name)
        made.allocate(name, "a", device)
    return made


def test_a_monitor_that_kube_scheduler_refused_gets_all_gpus_of_a_busy_node() -> None:
    made = busy()
    made.job("m", watch(), status=REFUSED)
    decision = place(made, "m")
    assert devices_in(decision) == {"m": ["gpu-0", "gpu-1"]}
    (grant,) = decision.grants
    assert all(result.admin_access for result in grant.allocation.devices.results)


def test_it_takes_nothing() -> None:
    """Who comes after it has what was there before."""
    made = busy()
    made.job("m", watch(), status=REFUSED)
    before = made.free()
    made.reserve(place(made, "m"))
    assert made.free() == before
    made.job("n", watch(), status=REFUSED)
    assert devices_in(place(made, "n")) == {"n": ["gpu-0", "gpu-1"]}


@pytest.mark.parametrize("status", [{}, GATED], ids=["kube-scheduler has not looked yet", "a gate"])
def test_kube_scheduler_comes_first(status: dict[str, Any]) -> None:
    made = busy()
    made.job("m", watch(), status=status)
    assert left_alone(made, "m") == (
        "request gpus of claim m matches only devices that are kube-scheduler's; "
        "where kube-scheduler finds no place the controller does",
        False,
    )


def test_who_tolerates_the_fence_is_served_on_fenced_nodes_too() -> None:
    """R21: a monitor that sees sick GPUs tolerates everything, so kube-scheduler is the first to try."""
    made = busy(value=CONTROLLER)
    made.job("m", watch(tolerations=EVERYTHING), status=REFUSED)
    assert devices_in(place(made, "m")) == {"m": ["gpu-0", "gpu-1"]}


def test_a_monitor_that_does_not_tolerate_the_fence_waits_for_nobody() -> None:
    """The devices are the controller's."""
    made = busy(value=CONTROLLER)
    made.job("m", watch())
    assert devices_in(place(made, "m")) == {"m": ["gpu-0", "gpu-1"]}


def test_where_nothing_draws_on_counters_kube_scheduler_is_never_in_the_way() -> None:
    made = world()
    made.node("a", gpus(2, value=SCHEDULER))
    made.job("m", watch(), status=REFUSED)
    assert left_alone(made, "m") == ("request gpus of claim m matches only devices that are kube-scheduler's", False)


def test_a_claim_that_takes_something_stays_kube_schedulers() -> None:
    made = busy()
    made.job("m", request("one", count=1), watch(), status=REFUSED)
    assert left_alone(made, "m")[0] == "request one of claim m matches only devices that are kube-scheduler's"


@pytest.mark.parametrize(("other", "is_left"), [("gpu", True), ("nic", True)], ids=["a GPU", "another driver's device"])
def test_a_pod_with_another_claim_of_kube_schedulers_is_left_to_it(other: str, *, is_left: bool) -> None:
    """The node that we chose might not have what the other claim needs."""
    made = busy()
    made.claim("watch", watch())
    made.claim("other", request(device_class=other))
    made.pod("m", "watch", "other", status=REFUSED)
    assert isinstance(made.decide("m"), LeaveAlone) is is_left


def test_a_pod_whose_other_claim_is_allocated_is_served_where_that_is() -> None:
    made = busy()
    made.claim("watch", watch())
    made.claim("other", request(device_class="nic"))
    made.allocate("other", "a", "nic-0", driver="nic.example.com")
    made.pod("m", "watch", "other", status=REFUSED)
    assert devices_in(made.decide("m")) == {"watch": ["gpu-0", "gpu-1"]}


def test_a_daemon_sets_pod_is_served_on_its_own_node() -> None:
    """Each pod names its node; another may be free."""
    made = busy()
    made.node("b")
    made.divide("b")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    made.job("m", watch(), status=REFUSED, affinity=affinity)
    assert place(made, "m").node == "a"


def test_a_node_between_allocators_waits() -> None:
    made = busy(value=DRAINING)
    made.job("m", watch(), status=REFUSED)
    assert wait(made, "m") == "1 node, 0 free GPUs; need all on one node; largest free set is 0"


def test_undivided_gpus_beside_divided_ones_are_seen_as_well() -> None:
    """*All* is all: here the node has a GPU that no claim divides."""
    made = busy()
    made.node("b", gpus(1, value=SCHEDULER))
    made.job("m", watch(), status=REFUSED)
    assert place(made, "m").node == "a"


def test_the_answer_comes_with_the_refusal() -> None:
    """The line decides anew when the pod says that kube-scheduler found no node."""
    made = busy()
    line = WaitingLine(made.cluster)
    made.job("m", watch())
    assert [type(each) for each in line.decide_all(NOW_S)] == [LeaveAlone]
    made.pod("m", "m", status=REFUSED)
    assert made.get(Pod, "m").is_refused
    assert [type(each) for each in line.decide_all(NOW_S)] == [Place]


def test_who_takes_something_is_never_given_what_is_kube_schedulers() -> None:
    """The same request without admin access finds nothing there."""
    made = busy()
    made.job("m", watch(), status=REFUSED)
    made.job("n", request())
    reading = made.cluster.judge.judge(made.objects["Claim", "n"]).reading
    assert reading.part is not None
    assert find_place(made.cluster.fleet, Problem(claims=(reading.part,))) is None
