"""An API server that lists a large cluster and then has nothing new to say: ``python -m hack.bench.listing_api NODES``.

Objects are made page by page, as they are asked for, so that a cluster of 10,000 nodes costs this process nothing. Each node
has the GPUs of one mock machine, fenced; two pods a node run with two GPUs each. Objects have what real ones have beside what
the controller reads: it comes over the wire, too.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from driver.api.fence import ALLOCATOR_KEY, CONTROLLER, FENCE_EFFECT
from driver.api.resource_v1 import Attribute, Device, Taint
from driver.cli.simulation.fleets import DRIVER, read_machine_devices

PODS_A_NODE = 2
GPUS_A_POD = 2
WAITING = 50
"""Pods, the last ones, that are not placed yet."""
MACHINE = "dgx-h100"
_VERSION = "1000000"
_STAMP = "2027-01-15T07:00:00Z"
_LABELS = {f"feature.example.com/property-{number}": "true" for number in range(30)}
_MANAGED = [
    {"manager": f"m-{number}", "operation": "Update", "fieldsV1": {f"f:{each}": {} for each in range(30)}}
    for number in range(6)
]
_OPEN_S = 3600.0
Object = dict[str, Any]


def build_meta(kind: int, number: int, name: str, **more: Any) -> Object:
    """Metadata as the server has it."""
    return {
        "name": name,
        "uid": f"{number:08x}-0000-4000-8000-{kind:012x}",
        "resourceVersion": str(1000 + number),
        "creationTimestamp": _STAMP,
        "managedFields": _MANAGED,
        **more,
    }


def fence(device: Device) -> Device:
    """The device as a node publishes it for the controller."""
    taint = Taint(key=ALLOCATOR_KEY, value=CONTROLLER, effect=FENCE_EFFECT, time_added=_STAMP)
    attributes = device.attributes | {"allocator": Attribute(string=CONTROLLER)}
    return msgspec.structs.replace(device, attributes=attributes, taints=(taint,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The cluster's objects by kind and number."""

    nodes: int
    devices: Sequence[Object]
    """Of each node, but for the texts that are one node's own."""

    def count(self, plural: str) -> int:
        """How many of a kind there are."""
        counts = {"nodes": self.nodes, "resourceslices": self.nodes, "deviceclasses": 1}
        pods = self.nodes * PODS_A_NODE
        return (counts | {"pods": pods, "resourceclaims": pods}).get(plural, 0)

    def is_waiting(self, number: int) -> bool:
        """Whether the pod of this number waits."""
        return number >= self.nodes * PODS_A_NODE - WAITING

    def build(self, plural: str, number: int) -> Object:
        """One object."""
        builders: Mapping[str, Callable[[int], Object]] = {
            "nodes": self._build_node,
            "resourceslices": self._build_slice,
            "pods": self._build_pod,
            "resourceclaims": self._build_claim,
            "deviceclasses": self._build_class,
        }
        return builders[plural](number)

    def _build_node(self, number: int) -> Object:
        name = f"node-{number:05}"
        labels = _LABELS | {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
        images = [
            {"names": [f"registry.example.com/image-{each}@sha256:{number:064x}"], "sizeBytes": each} for each in range(30)
        ]
        status = {"allocatable": {"cpu": "128", "memory": "2113333248Ki", "pods": "110"}, "images": images}
        return {"metadata": build_meta(1, number, name, labels=labels, annotations=_LABELS), "spec": {}, "status": status}

    def _build_slice(self, number: int) -> Object:
        name = f"node-{number:05}"
        devices = [_make_own(device, number) for device in self.devices]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": name, "devices": devices}
        return {"metadata": build_meta(2, number, f"00000-{DRIVER}-{name}-abcde"), "spec": spec}

    def _build_pod(self, number: int) -> Object:
        name = f"job-{number:06}"
        meta = build_meta(3, number, name, namespace=f"team-{number % 50}", labels=_LABELS)
        requests = {"requests": {"cpu": "8", "memory": "64Gi"}, "limits": {"memory": "64Gi"}}
        environment = [{"name": f"VARIABLE_{each}", "value": f"value {number} {each}"} for each in range(20)]
        spec = {
            "nodeName": "" if self.is_waiting(number) else f"node-{number // PODS_A_NODE:05}",
            "schedulerName": "default-scheduler",
            "priority": 0,
            "containers": [
                {"name": "main", "image": "registry.example.com/train:1", "env": environment, "resources": requests}
            ],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
            "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpus"}],
        }
        made = [{"name": "gpus", "resourceClaimName": f"{name}-gpus"}]
        return {"metadata": meta, "spec": spec, "status": {"phase": "Running", "resourceClaimStatuses": made}}

    def _build_claim(self, number: int) -> Object:
        node, first = f"node-{number // PODS_A_NODE:05}", number % PODS_A_NODE * GPUS_A_POD
        pod = {"name": f"job-{number:06}", "uid": f"{number:08x}-0000-4000-8000-{3:012x}"}
        owner = {"apiVersion": "v1", "kind": "Pod", "controller": True, **pod}
        meta = build_meta(4, number, f"{pod['name']}-gpus", namespace=f"team-{number % 50}", ownerReferences=[owner])
        results = [
            {"request": "gpus", "driver": DRIVER, "pool": node, "device": each["name"]}
            for each in self.devices[first : first + GPUS_A_POD]
        ]
        name_field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation = {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [name_field]}]},
            "allocationTimestamp": _STAMP,
        }
        exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": GPUS_A_POD}
        return {
            "metadata": meta,
            "spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}},
            "status": {}
            if self.is_waiting(number)
            else {"allocation": allocation, "reservedFor": [{"resource": "pods", **pod}]},
        }

    def _build_class(self, number: int) -> Object:
        expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"
        return {"metadata": build_meta(5, number, DRIVER), "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def _make_own(device: Object, number: int) -> Object:
    """The device with the texts that no other node has."""
    attributes = dict(device["attributes"])
    attributes["uuid"] = {"string": f"GPU-{number:08x}{attributes['uuid']['string'][12:]}"}
    for name, value in attributes.items():
        if name.startswith("nvlink") and "string" in value:
            attributes[name] = {"string": f"{number:012x}-{value['string'].partition('-')[2]}"}
    return {**device, "attributes": attributes}


class _Handler(BaseHTTPRequestHandler):
    """Lists by pages; a watch stays open and is silent."""

    protocol_version = "HTTP/1.1"
    cluster: Cluster

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if "watch" in query:
            self.send_response(200)
            self.end_headers()
            self.wfile.flush()
            time.sleep(_OPEN_S)
            return
        plural = url.path.rpartition("/")[2]
        first, limit = int(query.get("continue", "0")), int(query.get("limit", "500"))
        end = min(first + limit, self.cluster.count(plural))
        meta = {"resourceVersion": _VERSION} | ({"continue": str(end)} if end < self.cluster.count(plural) else {})
        items = [self.cluster.build(plural, number) for number in range(first, end)]
        body = json.dumps({"metadata": meta, "items": items}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


def main() -> None:
    """Serve until ended; the first line says at which port."""
    devices = [msgspec.to_builtins(fence(device)) for device in read_machine_devices(MACHINE)]
    _Handler.cluster = Cluster(nodes=int(sys.argv[1]), devices=devices)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
