"""Who else touches pods and claims: kube-scheduler and kube-controller-manager, as far as they meet a second allocator.

Each method is one pass over the fake API server's objects; ``ClusterLife.live`` makes passes until it is left. The scheduler
here allocates nothing by itself: all devices are fenced. Sources: contracts 5.4 and 5.5.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from tests.fakes.kube_objects import KubeObjects
from tests.fakes.kube_store import Refused

Json = dict[str, Any]
FINALIZER = "resource.kubernetes.io/delete-protection"
_ENDED = {"Succeeded", "Failed"}


class ClusterLife:
    """``refuses``: names of nodes on which the scheduler binds nothing (cordoned, full)."""

    def __init__(self, api: KubeObjects) -> None:
        self.api = api
        self.refuses: set[str] = set()
        self.is_scheduling = True
        self.is_collecting = True

    # -- kube-scheduler

    def schedule(self) -> list[str]:
        """Bind every pod whose claims are all allocated, to one node that takes it; the names of those that were bound."""
        bound = []
        for pod in self.api.objects("pods"):
            node = self._find_node(pod)
            if node is None or node in self.refuses:
                continue
            with contextlib.suppress(Refused):  # somebody was quicker: the next pass
                for claim in self._claims_of(pod):
                    self._reserve(claim, pod)
                self._bind(pod, node)
                bound.append(pod["metadata"]["name"])
        return bound

    def take_back(self, name: str, namespace: str = "team") -> bool:
        """PostFilter: free a claim that is reserved for nobody, or for one pod alone. False where it may not."""
        claim = self._find("resourceclaims", name, namespace)
        if claim is None or len(claim.get("status", {}).get("reservedFor", [])) > 1 or _has_foreign(claim):
            return False
        self._edit_status(claim, lambda status: {})
        return True

    def _find_node(self, pod: Json) -> str | None:
        """Where the pod's allocations let it run; None where one is missing, or they disagree."""
        if pod["spec"].get("nodeName") or pod["spec"].get("schedulingGates") or "deletionTimestamp" in pod["metadata"]:
            return None
        claims = self._claims_of(pod)
        nodes = {_node_of(claim) for claim in claims}
        return nodes.pop() if claims and len(nodes) == 1 and len(claims) == len(pod["spec"]["resourceClaims"]) else None

    def _reserve(self, claim: Json, pod: Json) -> None:
        meta = pod["metadata"]
        entry = {"resource": "pods", "name": meta["name"], "uid": meta["uid"]}
        there = claim["status"].get("reservedFor", [])
        if all(each["uid"] != meta["uid"] for each in there):
            self._edit_status(claim, lambda status: status | {"reservedFor": [*there, entry]})

    def _bind(self, pod: Json, node: str) -> None:
        meta = pod["metadata"]

        def bind(now: Json) -> Json:
            if now["metadata"]["uid"] != meta["uid"]:
                raise Refused(409, "Conflict", "another pod")
            return now | {"spec": now["spec"] | {"nodeName": node}}

        self.api.edit("pods", meta["name"], bind, namespace=meta["namespace"])

    # -- kube-controller-manager

    def collect(self) -> None:
        """Take pods that are gone or ended out of ``reservedFor``; free what nobody uses; let go of what is being deleted."""
        for claim in self.api.objects("resourceclaims"):
            with contextlib.suppress(Refused):
                self._collect(claim)

    def _collect(self, claim: Json) -> None:
        reserved = claim.get("status", {}).get("reservedFor", [])
        remaining = [each for each in reserved if not self._is_done(each, claim["metadata"]["namespace"])]
        has_finalizer = FINALIZER in claim["metadata"].get("finalizers", [])
        if len(remaining) < len(reserved):
            is_freed = not remaining and has_finalizer
            claim = self._edit_status(claim, lambda status: {} if is_freed else status | {"reservedFor": remaining})
            if is_freed:
                self._drop_finalizer(claim)
        elif has_finalizer and "deletionTimestamp" in claim["metadata"] and not remaining:
            if claim.get("status", {}).get("allocation"):
                claim = self._edit_status(claim, lambda status: {})
            self._drop_finalizer(claim)
        for pod in self.api.objects("pods"):  # bound without the scheduler's doing
            if pod["spec"].get("nodeName") and claim["status"].get("allocation") and self._uses(pod, claim):
                self._reserve(claim, pod)

    def _is_done(self, consumer: Json, namespace: str) -> bool:
        if consumer.get("apiGroup"):
            return False  # unknown consumers are kept
        pod = self._find("pods", consumer["name"], namespace)
        return pod is None or pod["metadata"]["uid"] != consumer["uid"] or pod.get("status", {}).get("phase") in _ENDED

    def _drop_finalizer(self, claim: Json) -> None:
        def drop(now: Json) -> Json:
            kept = [each for each in now["metadata"].get("finalizers", []) if each != FINALIZER]
            return now | {"metadata": now["metadata"] | {"finalizers": kept}}

        meta = claim["metadata"]
        self.api.edit("resourceclaims", meta["name"], drop, namespace=meta["namespace"])

    # -- both

    @contextlib.contextmanager
    def live(self, pause_s: float = 0.02) -> Iterator[ClusterLife]:
        """Both at work in the background."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(pause_s):
                if self.is_scheduling:
                    self.schedule()
                if self.is_collecting:
                    self.collect()

        thread = threading.Thread(target=run, name="cluster-life", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join(10.0)

    def _claims_of(self, pod: Json) -> list[Json]:
        """The pod's claims that exist and are allocated."""
        claims = [self._find("resourceclaims", name, pod["metadata"]["namespace"]) for name in _names_of_claims(pod)]
        return [each for each in claims if each is not None and each.get("status", {}).get("allocation")]

    def _uses(self, pod: Json, claim: Json) -> bool:
        is_there = pod["metadata"]["namespace"] == claim["metadata"]["namespace"]
        return is_there and claim["metadata"]["name"] in _names_of_claims(pod)

    def _find(self, plural: str, name: str, namespace: str) -> Json | None:
        found = (each for each in self.api.objects(plural) if each["metadata"]["name"] == name)
        return next((each for each in found if each["metadata"]["namespace"] == namespace), None)

    def _edit_status(self, claim: Json, change: Any) -> Json:
        """A write with the resourceVersion that was read, as both send it."""
        meta = claim["metadata"]

        def edit(now: Json) -> Json:
            if now["metadata"]["resourceVersion"] != meta["resourceVersion"]:
                raise Refused(409, "Conflict", "the object has been modified")
            return now | {"status": change(now.get("status", {}))}

        return self.api.edit("resourceclaims", meta["name"], edit, namespace=meta["namespace"], is_status=True)


def _names_of_claims(pod: Json) -> list[str]:
    """Those that the pod names, and those that its status says were made for it."""
    made = {each["name"]: each.get("resourceClaimName") for each in pod.get("status", {}).get("resourceClaimStatuses", [])}
    named = (each.get("resourceClaimName") or made.get(each["name"]) for each in pod["spec"].get("resourceClaims", []))
    return [name for name in named if name]


def find_doubles(api: KubeObjects) -> list[str]:
    """Devices that were in two claims at once at any moment since the server began, or since it was compacted."""
    held: dict[tuple[str, str, str], str] = {}
    found = []
    for event in api.store.history:
        if event.kind.plural != "resourceclaims":
            continue
        for device in list_devices(event.before):
            held.pop(device, None)
        for device in list_devices(event.after):
            uid = event.after["metadata"]["uid"] if event.after is not None else ""
            if held.setdefault(device, uid) != uid:
                found.append(f"{device} at {event.version}")
    return found


def list_devices(claim: Json | None) -> list[tuple[str, str, str]]:
    """What a claim has, as driver, pool and device."""
    allocation = ((claim or {}).get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or []
    return [(each["driver"], each["pool"], each["device"]) for each in results if not each.get("adminAccess")]


def _node_of(claim: Json) -> str:
    terms = claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    return str(terms[0]["matchFields"][0]["values"][0])


def _has_foreign(claim: Json) -> bool:
    return any(each.get("apiGroup") for each in claim["status"].get("reservedFor", []))
