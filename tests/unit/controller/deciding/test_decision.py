"""One demand decided: what is written for it, or what it waits for."""

from __future__ import annotations

from driver.api.claim_spec_v1 import ClaimAllocation
from driver.api.fence import SCHEDULER
from driver.controller.objects.model import Claim, Consumer, Pod
from tests.unit.controller.deciding.decisions import SMALL, cpu, left_alone, place, wait
from tests.unit.controller.world import (
    DRIVER,
    World,
    devices_in,
    gpus,
    machine,
    policy,
    request,
    tied_to,
    world,
)


def test_a_claim_gets_devices_its_node_and_the_pod_that_waits() -> None:
    made = world("a")
    pod = made.job("p", request(count=2))
    decision = place(made, "p")
    (grant,) = decision.grants
    assert grant.claim is made.get(Claim, "p")
    assert isinstance(grant.allocation, ClaimAllocation)
    assert [(each.driver, each.pool, each.device) for each in grant.allocation.devices.results] == [
        (DRIVER, "a", "gpu-0"),
        (DRIVER, "a", "gpu-1"),
    ]
    assert grant.allocation.node_selector == tied_to("a")
    assert grant.reserved_for == (Consumer(resource="pods", name="p", uid=pod.metadata.uid),)
    assert (decision.node, decision.demand.key) == ("a", pod.metadata.uid)


def test_a_place_that_was_reserved_is_taken() -> None:
    made = world("a", devices=2)
    for name in ("p", "q"):
        made.job(name)
    made.reserve(place(made, "p"))
    made.reserve(place(made, "q"))
    assert made.free() == {"a": 0}
    made.job("r")
    assert wait(made, "r") == "1 node, 0 free GPUs; need 1 on one node; largest free set is 0"


def test_only_fenced_devices_are_given() -> None:
    made = world()
    made.node("a", gpus(4, value=SCHEDULER))
    made.node("b", gpus(1))
    made.job("p", request(count=2))
    assert wait(made, "p") == "1 node, 1 free GPU; need 2 on one node; largest free set is 1 (b)"


def test_claims_of_one_pod_go_to_one_node() -> None:
    made = world("a", "b", devices=2)
    made.claim("x", request(count=1))
    made.claim("y", request(count=2))
    made.pod("p", "x", "y")
    assert wait(made, "p").endswith("each request fits alone, but no node has room for all of them together")
    made.node("c", gpus(3))
    decision = place(made, "p")
    assert decision.node == "c"
    assert {name: len(devices) for name, devices in devices_in(decision).items()} == {"x": 1, "y": 2}


def test_a_claim_that_is_allocated_already_fixes_the_node() -> None:
    made = world("a", "b")
    for name in ("x", "y"):
        made.claim(name)
    made.allocate("x", "b", "gpu-0")
    made.pod("p", "x", "y")
    assert place(made, "p").node == "b"


def test_a_second_drivers_claim_is_left_to_the_scheduler_and_fixes_the_node_once_it_has_one() -> None:
    made = world("a", "b")
    made.claim("gpu")
    made.claim("nic", request("nic", "nic"))
    made.pod("p", "gpu", "nic")
    assert devices_in(place(made, "p")) == {"gpu": ["gpu-0"]}
    made.allocate("nic", "b", "nic-0", driver="nic.example.com")
    assert place(made, "p").node == "b"


def test_a_pod_that_only_the_scheduler_can_serve_is_left_alone() -> None:
    made = world("a")
    made.claim("nic", request("nic", "nic"))
    made.pod("p", "nic")
    assert left_alone(made, "p") == ("no device of gpu.nvidia.com matches request nic of claim nic", False)


def test_a_pod_with_one_claim_that_nobody_can_serve_gets_nothing() -> None:
    """The other claim's devices would stay idle."""
    made = world("a")
    made.claim("fine")
    made.claim("broken", request(selectors=[{"cel": {"expression": "1 +"}}]))
    made.pod("p", "fine", "broken")
    reason, is_fault = left_alone(made, "p")
    assert (reason.startswith("claim broken: request gpus: "), is_fault) == (True, True)


def test_a_pod_that_shares_with_one_that_cannot_be_served_is_served() -> None:
    made = world("a")
    made.claim("shared")
    made.claim("broken", request(device_class="nope"))
    made.pod("p", "shared", "broken")
    made.pod("q", "shared")
    decision = place(made, "q")
    assert [pod.metadata.name for pod in decision.demand.pods] == ["q"]
    assert [[each.name for each in grant.reserved_for] for grant in decision.grants] == [["q"]]


def test_pods_of_a_group_are_left_alone() -> None:
    made = world("a")
    made.claim("c")
    made.pod("p", "c", schedulingGroup={"podGroupName": "gang"})
    reason = "pod p is in a pod group: kube-scheduler places these together (not supported)"
    assert left_alone(made, "p") == (reason, False)


def test_a_template_claim_must_be_the_pods_own() -> None:
    made = world("a")
    made.pod("q", made=["own"])
    made.pod("p", made=["own"])
    made.claim("own", owner="q")
    made.remove(Pod, "q")
    assert left_alone(made, "p") == ("claim own was not made for pod p", True)
    made.remove(Claim, "own")
    made.claim("own", owner="p")
    assert place(made, "p").node == "a"


def test_each_claim_is_reserved_for_the_pods_that_use_it() -> None:
    made = world("a")
    for name in ("shared", "own"):
        made.claim(name)
    made.pod("p", "shared")
    made.pod("q", "shared", "own")
    decision = place(made, "p")
    reserved = {grant.claim.metadata.name: [each.name for each in grant.reserved_for] for grant in decision.grants}
    assert reserved == {"shared": ["p", "q"], "own": ["q"]}


def test_pods_that_share_a_claim_go_where_all_of_them_fit() -> None:
    made = world()
    made.node("a", gpus(4), allocatable=SMALL | {"cpu": "4"})
    made.node("b", gpus(4), allocatable=SMALL)
    made.claim("c")
    for name in ("p", "q"):
        made.pod(name, "c", containers=cpu("3"))
    assert place(made, "p").node == "b"


def test_pods_that_do_not_fit_together_anywhere_take_turns() -> None:
    """As with kube-scheduler: the claim goes where the first can run, the others follow when they can."""
    made = world()
    made.node("a", gpus(4), allocatable=SMALL)
    for name in ("shared", "own"):
        made.claim(name)
    made.pod("p", "shared", containers=cpu("5"))
    made.pod("q", "shared", "own", containers=cpu("5"))
    decision = place(made, "p")
    assert [[pod.metadata.name for pod in decision.demand.pods], list(devices_in(decision))] == [["p"], ["shared"]]
    made.reserve(decision)
    assert wait(made, "q") == "devices are free on a, but the pod does not fit there: not enough cpu: needs 5, 3 of 8 are left"


def test_admin_access_takes_nothing_and_sees_what_others_have() -> None:
    made = world("a", devices=1)
    made.claim("taken")
    made.allocate("taken", "a", "gpu-0")
    made.job("monitor", request(adminAccess=True, allocationMode="All"))
    decision = place(made, "monitor")
    (result,) = decision.grants[0].allocation.devices.results
    assert (result.device, result.admin_access) == ("gpu-0", True)
    made.remove(Claim, "taken")
    made.reserve(decision)
    assert made.free() == {"a": 1}


def islands() -> World:
    """Five nodes of two NVLink islands of four, with two GPUs free in each of the ten."""
    made = world()
    for number in range(5):
        name = f"node-{number}"
        made.node(name, machine("hgx-a100-4x2"))
        names = [id_.device for id_ in made.cluster.fleet.nodes[name].ids]
        made.claim(f"held-{number}")
        made.allocate(f"held-{number}", name, names[0], names[1], names[4], names[5])
    return made


def test_the_islands_story() -> None:
    made = islands()
    made.job("must", request(count=4, device_class="topology"), devices={"config": [policy(mode="required")]})
    made.job("likes", request(count=4))
    assert wait(made, "must") == (
        "5 nodes, 20 free GPUs; need 4 on one NVLink island; "
        "largest free set is 2 (node-0 island 0, node-0 island 1, node-1 island 0, ...)"
    )
    assert len(devices_in(place(made, "likes"))["likes"]) == 4


def test_where_some_nodes_do_not_fit_the_pod_the_others_numbers_are_told() -> None:
    made = islands()
    made.node("node-3", taints=[{"key": "example.com/down", "effect": "NoSchedule"}])
    made.node("node-4", unschedulable=True)
    made.job("must", request(count=4, device_class="topology"), devices={"config": [policy(mode="required")]})
    assert wait(made, "must") == (
        "3 nodes, 12 free GPUs; need 4 on one NVLink island; "
        "largest free set is 2 (node-0 island 0, node-0 island 1, node-1 island 0, ...); "
        "the pod does not fit on: 1 node: cordoned, 1 node: taint example.com/down"
    )


def test_where_no_node_fits_the_pod_the_numbers_are_of_all_of_them() -> None:
    made = islands()
    made.job("p", request(count=9), nodeSelector={"pool": "gpu"})
    assert wait(made, "p") == (
        "5 nodes, 20 free GPUs; need 9 on one node; largest free set is 4 (node-0, node-1, node-2, ...); "
        "the pod does not fit on: 5 nodes: node selector pool=gpu"
    )


def test_devices_where_the_pod_cannot_go_are_told_beside_those_where_it_can() -> None:
    made = world("a")
    made.node("b", gpus(8), allocatable=SMALL)
    made.job("p", request(count=8), containers=cpu("16"))
    assert wait(made, "p") == (
        "devices are free on b, but the pod does not fit there: not enough cpu: needs 16, 8 of 8 are left; "
        "1 node, 4 free GPUs; need 8 on one node; largest free set is 4 (a)"
    )
