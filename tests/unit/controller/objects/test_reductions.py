"""Objects as the mirror keeps them: smaller, and the same to every decision."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from driver.allocator.pools import gather_pools
from driver.api.fence import DRAINED_ANNOTATION
from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import (
    Attribute,
    Capacity,
    Counter,
    CounterConsumption,
    CounterSet,
    Device,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
    Taint,
)
from driver.controller.books.node_room import NodeRooms
from driver.controller.objects.model import UNSCHEDULABLE, Claim, DeviceClass, Node, Pod, PodToleration
from driver.controller.objects.ownership import ALLOCATION_ANNOTATION, EXTENDED_RESOURCE_ANNOTATION, digest_allocation, is_ours
from driver.controller.objects.pod_use import build_pod_use
from driver.controller.objects.reductions import ClaimReduction, NodeReduction, PodReduction, reduce_class
from driver.controller.objects.sharing import Shared
from driver.controller.objects.slice_reduction import SliceReduction
from tests.unit.controller.world import CREATED, GPU, decode, machine, tied_to

META = {
    "name": "x",
    "namespace": "team",
    "uid": "u",
    "resourceVersion": "7",
    "creationTimestamp": CREATED,
    "deletionTimestamp": CREATED,
    "labels": {"a": "b"},
    "annotations": {"noise": "n" * 1000},
}
POD_SPEC: dict[str, Any] = {
    "nodeSelector": {"pool": "gpu"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
    "containers": [{"name": "m", "resources": {"requests": {"cpu": "1"}}, "ports": [{"hostPort": 80}]}],
    "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "2"}}, "restartPolicy": "Always"}],
    "overhead": {"cpu": "100m"},
    "resources": {"requests": {"memory": "1Gi"}},
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}],
    "schedulingGates": [],
    "schedulingGroup": {"podGroupName": "g"},
    "priority": 5,
    "resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
}


def pod(phase: str = "Pending", **spec: Any) -> Pod:
    return decode(Pod, {"metadata": META, "spec": POD_SPEC | spec, "status": {"phase": phase, "nominatedNodeName": "n"}})


def slice_of(devices: tuple[Device, ...], node: str = "a", counters: tuple[CounterSet, ...] = ()) -> ResourceSlice:
    made = ResourceSlice(
        metadata=ObjectMeta(name=f"00000-{node}", uid=node, resource_version="7", labels={"a": "b"}, generation=4),
        spec=ResourceSliceSpec(
            driver="gpu.nvidia.com",
            pool=ResourcePool(name=node, generation=3, resource_slice_count=1),
            node_name=node,
            devices=devices,
            shared_counters=counters,
        ),
    )
    return msgspec.json.decode(msgspec.json.encode(made), type=ResourceSlice)


def test_a_pod_that_waits_keeps_everything_that_says_where_it_may_go() -> None:
    assert PodReduction()(pod()) == pod()


def test_of_conditions_a_pod_keeps_that_kube_scheduler_found_no_node() -> None:
    """It is told again with another text after each try, and that changes nothing."""
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
    other = {"type": "Ready", "status": "False", "reason": "Unschedulable"}
    made = decode(Pod, {"metadata": META, "spec": POD_SPEC, "status": {"phase": "Pending", "conditions": [other, said]}})
    kept = PodReduction()(made)
    assert kept.status.conditions == (UNSCHEDULABLE,)
    assert kept.is_refused
    bound = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, node_name="a"))
    assert PodReduction()(bound).status.conditions == ()


def test_a_bound_pod_keeps_what_it_takes_and_its_claims() -> None:
    whole = pod("Running", nodeName="a")
    kept = PodReduction()(whole)
    assert build_pod_use(kept) == build_pod_use(whole)
    assert NodeRooms().note_pod(kept) == ("a",)
    assert (kept.metadata, kept.status, kept.spec.resource_claims) == (whole.metadata, whole.status, whole.spec.resource_claims)
    assert (kept.spec.node_name, kept.spec.scheduling_group) == ("a", {"podGroupName": "g"})
    assert (kept.spec.tolerations, kept.spec.affinity, kept.spec.node_selector, kept.spec.volumes) == ((), None, {}, ())


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_keeps_only_its_claims(phase: str) -> None:
    kept = PodReduction()(pod(phase, nodeName="a"))
    assert (kept.spec.containers, kept.spec.overhead, kept.spec.resources) == ((), {}, None)
    assert kept.spec.resource_claims == pod().spec.resource_claims


def test_equal_parts_of_pods_are_one_object_and_parts_that_only_look_alike_are_not() -> None:
    """A container and a toleration without anything are the same text."""
    reduce = PodReduction()
    bare: dict[str, Any] = {"containers": [{"name": "m"}], "tolerations": [{}]}
    first, second = reduce(pod("Pending", **bare)), reduce(pod("Pending", **bare))
    assert first.spec.containers is second.spec.containers
    assert first.spec.tolerations == (PodToleration(),)


def test_a_node_keeps_its_labels_and_our_annotation() -> None:
    annotations = {DRAINED_ANNOTATION: CREATED, "noise": "n"}
    value = {
        "metadata": META | {"annotations": annotations},
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "8"}},
    }
    whole = decode(Node, value)
    kept = NodeReduction()(whole)
    assert (kept.metadata.labels, kept.metadata.annotations) == ({"a": "b"}, {DRAINED_ANNOTATION: CREATED})
    assert (kept.spec, kept.status) == (whole.spec, whole.status)
    assert (kept.metadata.name, kept.metadata.uid, kept.metadata.resource_version) == ("x", "u", "7")
    assert kept.metadata.deletion_timestamp == CREATED


OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}
RESULT = {"request": "gpus", "driver": "gpu.nvidia.com", "pool": "a", "device": "gpu-0"}


def claim(status: dict[str, Any] | None = None, **annotations: str) -> Claim:
    meta = META | {"ownerReferences": [OWNER], "finalizers": ["f"], "annotations": annotations | {"noise": "n"}}
    return decode(Claim, {"metadata": meta, "spec": {"devices": {"requests": []}}, "status": status or {}})


def test_a_claim_that_is_open_keeps_what_it_asks_for() -> None:
    whole = claim()
    kept = ClaimReduction()(whole)
    assert bytes(kept.spec) == bytes(whole.spec)
    assert kept.metadata.owner_references == whole.metadata.owner_references
    assert kept.metadata.finalizers == ("f",)
    assert (kept.metadata.labels, kept.metadata.annotations) == ({}, {})
    assert kept.metadata.creation_timestamp == kept.metadata.deletion_timestamp == CREATED


def test_a_claim_that_is_allocated_keeps_what_it_has_and_whose_it_is() -> None:
    allocation = {"devices": {"results": [RESULT]}, "nodeSelector": tied_to("a"), "allocationTimestamp": CREATED}
    status = {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": "p", "uid": "p"}]}
    digest = digest_allocation(decode(Claim, {"metadata": META, "status": status}).status.allocation.devices.results)  # type: ignore[union-attr]
    kept = ClaimReduction()(claim(status, **{ALLOCATION_ANNOTATION: digest, EXTENDED_RESOURCE_ANNOTATION: "true"}))
    assert is_ours(kept)
    assert kept.status == claim(status).status
    assert kept.metadata.annotations[EXTENDED_RESOURCE_ANNOTATION] == "true"
    assert bytes(kept.spec) == b"{}"


def test_a_claims_shared_amounts_are_kept() -> None:
    result = RESULT | {"shareID": "s", "consumedCapacity": {"memory": "10Gi"}, "adminAccess": True}
    status = {"allocation": {"devices": {"results": [result]}}}
    assert ClaimReduction()(claim(status)).status == claim(status).status


def test_a_class_says_what_it_said() -> None:
    whole = decode(DeviceClass, {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": GPU}}]}})
    assert bytes(reduce_class(whole).spec) == bytes(whole.spec)


def test_a_slice_keeps_devices_as_they_were() -> None:
    taint = Taint(key="k", effect="NoSchedule", time_added=CREATED)
    odd = Device(
        name="mig-0",
        attributes={
            "a": Attribute(int_=1),
            "b": Attribute(bool_=True),
            "c": Attribute(version="1.0.0"),
            "d": Attribute(string=""),
        },
        capacity={"memory": Capacity(value="1Gi", request_policy={"default": "1Gi"})},
        consumes_counters=(CounterConsumption(counter_set="s", counters={"memory": Counter(value="1Gi")}),),
        taints=(taint,),
        allow_multiple_allocations=True,
    )
    counters = (CounterSet(name="s", counters={"memory": Counter(value="80Gi")}),)
    whole = slice_of((*machine("dgx-h100"), odd), counters=counters)
    kept = SliceReduction()(whole)
    assert kept.spec == whole.spec
    assert gather_pools([kept]) == gather_pools([whole])
    meta = kept.metadata
    assert (meta.name, meta.uid, meta.resource_version, meta.labels) == ("00000-a", "a", "7", {})


def test_equal_attributes_of_all_devices_are_one_object() -> None:
    reduce = SliceReduction()
    first, second = reduce(slice_of(machine("dgx-h100"))), reduce(slice_of(machine("dgx-h100"), "b"))
    for name in ("productName", "driverVersion", "nvlinkIsland"):
        values = {id(device.attributes[name]) for each in (first, second) for device in each.spec.devices}
        assert len(values) == 1, name
    assert first.spec.devices[0].taints is second.spec.devices[7].taints
    assert first.spec.devices[0].capacity is second.spec.devices[7].capacity


def test_the_values_of_one_node_are_shared_by_its_devices_when_there_are_too_many_for_all() -> None:
    reduce = SliceReduction()
    for number in range(5000):
        value = Attribute(string=f"island-{number}")
        devices = tuple(Device(name=f"gpu-{each}", attributes={"nvlinkIsland": value}) for each in range(2))
        kept = reduce(slice_of(devices, f"node-{number}"))
    assert kept.spec.devices[0].attributes["nvlinkIsland"] is kept.spec.devices[1].attributes["nvlinkIsland"]


def test_what_differs_everywhere_is_not_kept() -> None:
    """Or the table of what is shared would be as large as what it shares."""
    shared: Shared[str] = Shared(most=3)
    first = shared.of("a", "one")
    assert shared.of("a", "two") is first
    for key in "bcd":
        shared.of(key, key)
    assert shared.of("a", "three") == "three"


def test_labels_and_attributes_of_ever_new_names_are_not_kept() -> None:
    """For months, by whoever may label nodes."""
    nodes, slices = NodeReduction(), SliceReduction()
    for number in range(600):
        value = f"value-{number}"
        kept = nodes(decode(Node, {"metadata": {"name": "n", "labels": {f"key-{number}": value}}}))
        assert kept.metadata.labels == {f"key-{number}": value}
        device = Device(name="gpu-0", attributes={f"name-{number}": Attribute(string=value)})
        assert slices(slice_of((device,))).spec.devices[0] == device
    assert len(nodes._values) == len(slices._attributes) == 256


def test_rooms_do_not_keep_what_pods_and_nodes_that_are_gone_asked_for() -> None:
    rooms = NodeRooms()
    for number in range(10_000):
        rooms.set_node("n", {"cpu": str(number + 1)})
        containers = [{"name": "m", "resources": {"requests": {"cpu": f"{number}m"}}}]
        pod = decode(Pod, {"metadata": {"name": "p", "uid": "p"}, "spec": {"containers": containers, "nodeName": "n"}})
        rooms.note_pod(pod)
    assert len(rooms._uses) < 5_000
    assert len(rooms._capacities) < 5_000
