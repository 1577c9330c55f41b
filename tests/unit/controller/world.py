"""A small cluster for tests of the mirror: objects as the API has them, told to a ``Cluster`` change by change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import msgspec

from driver.allocator.result import list_holdings
from driver.api.fence import ALLOCATOR_KEY, CONTROLLER, FENCE_EFFECT, SCHEDULER
from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import Attribute, Device, ResourcePool, ResourceSlice, ResourceSliceSpec, Taint
from driver.controller.books.mirror import Cluster
from driver.controller.deciding.decision import Decision, Place, decide
from driver.controller.objects.model import Claim, DeviceClass, Node, Pod
from driver.controller.objects.taint_rules import DeviceTaintRule
from driver.kube.changes import Change, ChangeKind
from driver.kube.resources import KubeObject
from hack.bench.mig_pools import build_mig_pool
from tests.unit.allocator.cases import devices_of

DRIVER = "gpu.nvidia.com"
NAMESPACE = "team"
NOW_S = 1_800_000_000.0
CREATED = "2027-01-15T07:00:00Z"
"""An hour before ``NOW_S``."""
ROOM: Mapping[str, str] = {"cpu": "64", "memory": "256Gi", "pods": "110"}
GPU = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"
FENCED_GPU = f"{GPU} && device.attributes['{DRIVER}'].allocator == 'controller'"
CLASSES: Mapping[str, Mapping[str, Any]] = {
    "gpu": {"selectors": [{"cel": {"expression": GPU}}]},
    "topology": {"selectors": [{"cel": {"expression": FENCED_GPU}}]},
    "nic": {"selectors": [{"cel": {"expression": "device.driver == 'nic.example.com'"}}]},
}
T = TypeVar("T", bound=KubeObject)


def fence(device: Device, value: str = CONTROLLER) -> Device:
    """A device as a node publishes it for an allocator."""
    taints = () if value == SCHEDULER else (Taint(key=ALLOCATOR_KEY, value=value, effect=FENCE_EFFECT),)
    return msgspec.structs.replace(
        device, attributes={**device.attributes, "allocator": Attribute(string=value)}, taints=(*taints, *device.taints)
    )


@cache
def gpus(count: int, product: str = "H100", value: str = CONTROLLER) -> tuple[Device, ...]:
    """Devices of a node without any links."""
    attributes = {"type": Attribute(string="gpu"), "productName": Attribute(string=product)}
    return tuple(fence(Device(name=f"gpu-{number}", attributes=attributes), value) for number in range(count))


@cache
def machine(name: str, value: str = CONTROLLER) -> tuple[Device, ...]:
    """What a mock machine publishes."""
    return tuple(fence(device, value) for device in devices_of(name))


def decode(kind: type[T], value: Mapping[str, Any]) -> T:
    """An object as it comes off the wire."""
    return msgspec.json.decode(msgspec.json.encode(value), type=kind)


def request(name: str = "gpus", device_class: str = "gpu", **exactly: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": device_class, **exactly}}


def policy(**fields: str) -> dict[str, Any]:
    parameters = {"apiVersion": "gpu-dra.io/v1alpha1", "kind": "TopologyPolicy", **fields}
    return {"opaque": {"driver": DRIVER, "parameters": parameters}}


def tied_to(*nodes: str) -> dict[str, Any]:
    """A node selector as allocations have it."""
    return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": list(nodes)}]}]}


@dataclass(slots=True)
class World:
    """Objects by kind and name. Each ``put`` and ``remove`` is told to the cluster at once; versions count up."""

    cluster: Cluster = field(default_factory=lambda: Cluster(DRIVER))
    objects: dict[tuple[str, str], Any] = field(default_factory=dict)
    version: int = 0
    uids: int = 0
    namespace: str = NAMESPACE
    """Of claims and pods that are made."""

    def put(self, item: T) -> T:
        """The object is now this."""
        key = (type(item).__name__, item.metadata.name)
        kind = ChangeKind.MODIFIED if key in self.objects else ChangeKind.ADDED
        self.objects[key] = item
        self.tell(Change(kind=kind, item=item))
        return item

    def remove(self, kind: type[T], name: str) -> None:
        self.tell(Change(kind=ChangeKind.DELETED, item=self.objects.pop((kind.__name__, name))))

    def get(self, kind: type[T], name: str) -> T:
        found = self.objects[kind.__name__, name]
        assert isinstance(found, kind)
        return found

    def tell(self, change: Change[Any]) -> None:
        """One change, to whoever it is for."""
        notes: dict[type, Callable[[Change[Any]], None]] = {
            Pod: self.cluster.note_pod,
            Node: self.cluster.note_node,
            Claim: self.cluster.note_claim,
            ResourceSlice: self.cluster.note_slice,
            DeviceClass: self.cluster.note_class,
            DeviceTaintRule: self.cluster.note_rule,
        }
        notes[type(change.item)](change)

    def meta(self, kind: str, name: str, **more: Any) -> dict[str, Any]:
        """Metadata: the uid of the object that is there, else a new one; always a new version."""
        self.version += 1
        known = self.objects.get((kind, name))
        if known is None:
            self.uids += 1
        uid = f"{kind.lower()}-{name}-{self.uids}" if known is None else known.metadata.uid
        return {"name": name, "uid": uid, "resourceVersion": str(self.version), **more}

    def classes(self, classes: Mapping[str, Mapping[str, Any]] = CLASSES) -> None:
        for name, spec in classes.items():
            self.put(decode(DeviceClass, {"metadata": self.meta("DeviceClass", name), "spec": spec}))

    def node(self, name: str, devices: Sequence[Device] | None = None, **fields: Any) -> None:
        """A node, and a pool of one slice with its devices, if there are any."""
        labels, allocatable = fields.pop("labels", {}), fields.pop("allocatable", ROOM)
        meta = self.meta("Node", name, labels=labels)
        self.put(decode(Node, {"metadata": meta, "spec": fields, "status": {"allocatable": dict(allocatable)}}))
        if devices is not None:
            self.slice(name, devices)

    def slice(self, node: str, devices: Sequence[Device], *, number: int = 0, of: int = 1, generation: int = 1) -> None:
        meta = self.meta("ResourceSlice", f"{number:05x}-{node}")
        spec = ResourceSliceSpec(
            driver=DRIVER,
            pool=ResourcePool(name=node, generation=generation, resource_slice_count=of),
            node_name=node,
            devices=tuple(devices),
        )
        item = ResourceSlice(
            metadata=ObjectMeta(name=meta["name"], uid=meta["uid"], resource_version=meta["resourceVersion"]), spec=spec
        )
        self.put(item)

    def divide(self, node: str, gpus_: int = 2, value: str = SCHEDULER) -> None:
        """The node has GPUs that claims may have in parts, with their counters."""
        pool = build_mig_pool(node, "h100-80gb", gpus_)
        devices = tuple(fence(device, value) for device in pool.devices)
        parts: list[dict[str, Any]] = [{"devices": devices[at : at + 64]} for at in range(0, len(devices), 64)]
        parts.append({"shared_counters": pool.counter_sets})
        shown = ResourcePool(name=node, generation=1, resource_slice_count=len(parts))
        for number, part in enumerate(parts):
            meta = ObjectMeta(name=f"{number:05x}-{node}", uid=f"slice-{node}-{number}")
            spec = ResourceSliceSpec(driver=DRIVER, pool=shown, node_name=node, **part)
            self.put(ResourceSlice(metadata=meta, spec=spec))

    def rule(self, name: str, **selector: str) -> None:
        """A rule that taints what is named; nothing named is every device."""
        spec = {"deviceSelector": selector, "taint": {"key": "example.com/bad", "effect": "NoSchedule"}}
        self.put(decode(DeviceTaintRule, {"metadata": self.meta("DeviceTaintRule", name), "spec": spec}))

    def claim(self, name: str, *requests: Mapping[str, Any], owner: str | None = None, **devices: Any) -> Claim:
        """An unallocated claim; one request for a GPU where none is given. ``owner`` is the pod that it is made for."""
        meta = self.meta("Claim", name, namespace=self.namespace)
        meta["annotations"] = devices.pop("annotations", {})
        if owner is not None:
            uid = self.get(Pod, owner).metadata.uid
            meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": uid, "controller": True}]
        spec = devices.pop("spec", None) or {"devices": {"requests": list(requests) or [request()], **devices}}
        return self.put(decode(Claim, {"metadata": meta, "spec": spec}))

    def change_claim(self, name: str, **fields: Any) -> Claim:
        """The claim with another status, or other metadata."""
        value = msgspec.json.decode(msgspec.json.encode(self.get(Claim, name)))
        value["metadata"] |= {"resourceVersion": self.meta("Claim", name)["resourceVersion"], **fields.pop("metadata", {})}
        value["status"] = fields.pop("status", value.get("status", {}))
        return self.put(decode(Claim, value))

    def allocate(self, name: str, node: str, *devices: str, driver: str = DRIVER, **result: Any) -> Claim:
        """Somebody has allocated these devices of a node to the claim, and the watch says so."""
        results = [{"request": "gpus", "driver": driver, "pool": node, "device": each, **result} for each in devices]
        return self.change_claim(name, status={"allocation": {"devices": {"results": results}, "nodeSelector": tied_to(node)}})

    def pod(self, name: str, *claims: str, made: Sequence[str] = (), **fields: Any) -> Pod:
        """A pod that waits for these claims, and for those that were made for it."""
        created = fields.pop("created", CREATED)
        status = dict(fields.pop("status", {}))
        deleted = fields.pop("deleted", None)
        entries = [{"name": each, "resourceClaimName": each} for each in claims]
        entries += [{"name": each, "resourceClaimTemplateName": "template"} for each in made]
        status.setdefault("resourceClaimStatuses", [{"name": each, "resourceClaimName": each} for each in made])
        meta = self.meta("Pod", name, namespace=self.namespace, creationTimestamp=created)
        if deleted is not None:
            meta["deletionTimestamp"] = deleted
        spec = {"containers": [{"name": "main"}], "resourceClaims": entries, **fields}
        return self.put(decode(Pod, {"metadata": meta, "spec": spec, "status": status}))

    def job(self, name: str, *requests: Mapping[str, Any], devices: Mapping[str, Any] | None = None, **fields: Any) -> Pod:
        """A pod and its own claim, of the same name."""
        self.claim(name, *requests, **(devices or {}))
        return self.pod(name, name, **fields)

    def decide(self, pod: str, **how: Any) -> Decision:
        """The decision for the demand that the pod is part of."""
        demand = self.cluster.demand_of(self.get(Pod, pod).metadata.uid)
        assert demand is not None, f"{pod} does not wait for a claim"
        return decide(self.cluster, demand, now_s=how.pop("now_s", NOW_S), **how)

    def reserve(self, place: Place) -> None:
        """What the loop does with a decision."""
        for grant in place.grants:
            self.cluster.reserve(grant.claim.metadata.uid, list_holdings(grant.allocation), place.node)

    def demands(self) -> list[tuple[list[str], list[str]]]:
        """Each demand's pods and claims by name, in order."""
        return [
            ([pod.metadata.name for pod in demand.pods], [claim.metadata.name for claim in demand.claims])
            for demand in self.cluster.demands()
        ]

    def free(self) -> dict[str, int]:
        """Devices that nobody holds, by node."""
        fleet = self.cluster.fleet
        return {name: len(node.ids) - fleet.taken(name).mask.bit_count() for name, node in fleet.nodes.items()}


def world(*nodes: str, devices: int = 4) -> World:
    """The classes, and nodes of so many fenced GPUs."""
    made = World()
    made.classes()
    for name in nodes:
        made.node(name, gpus(devices))
    return made


def devices_in(place: Decision) -> dict[str, list[str]]:
    """The devices that each claim gets, by the claim's name."""
    assert isinstance(place, Place), place
    return {grant.claim.metadata.name: [result.device for result in grant.allocation.devices.results] for grant in place.grants}


def names(items: Iterable[KubeObject]) -> list[str]:
    return [item.metadata.name for item in items]
