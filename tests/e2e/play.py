"""What scenarios of the controller work with: controllers, a fleet, the watcher of claims, and quick ways to ask."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.e2e import objects
from tests.e2e.controller import LEASE, TIMES_S, Controller
from tests.e2e.double_watch import DoubleWatch
from tests.e2e.identity import SYSTEM_NAMESPACE
from tests.e2e.kube import Json
from tests.e2e.objects import NAMESPACE, NodePods
from tests.e2e.stage import NotAsExpected, Stage, expect

OURS = "gpu-dra.io/allocation"
"""The annotation on a claim that the controller allocated."""
FENCED = f'device.attributes["{objects.DRIVER}"].allocator == "controller"'
UNFENCED = f'device.attributes["{objects.DRIVER}"].allocator == "scheduler"'
SHORT_TIMES: tuple[str, ...] = tuple(
    text
    for flag, seconds in (
        ("--lease", TIMES_S["lease"]),
        ("--renew", TIMES_S["renew"]),
        ("--retry", TIMES_S["retry"]),
        ("--request-timeout", TIMES_S["request"]),
    )
    for text in (f"{flag}-s", str(seconds))
)


@dataclass(slots=True, kw_only=True)
class Play:
    """One scenario's. ``controllers`` are the stage's."""

    stage: Stage
    watch: DoubleWatch
    may_lose_place: bool = False
    """An API server that was restarted does not know old versions: the watcher has to list anew."""

    # -- controllers

    def new_controller(self, **more: object) -> Controller:
        """One that is not started yet; it is ended with the scenario."""
        made = Controller(
            kubeconfig=self.stage.controller_kubeconfig,
            logs=self.stage.folders.logs,
            namespace=SYSTEM_NAMESPACE,
            port=_find_port(),
            **{"options": SHORT_TIMES, **more},  # type: ignore[arg-type]  # passed on as given
        )
        self.stage.controllers.append(made)
        return made

    def start_controller(self, **more: object) -> Controller:
        """Start one and wait until it leads."""
        controller = self.new_controller(**more)
        controller.start()
        controller.wait_leading()
        return controller

    def leader(self, *, timeout_s: float = 60.0) -> Controller:
        """The controller that leads, when one does."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            for each in self.stage.controllers:
                if each.is_leader():
                    return each
            time.sleep(0.05)
        raise NotAsExpected(f"nobody leads: {[each.ask('/readyz') for each in self.stage.controllers]}")

    # -- pods and claims

    def create_pod(self, name: str, claims: Mapping[str, str | Json], **spec: Any) -> Json:
        """A pod with these claims: a name of a claim that there is, or the spec of one that is made for the pod."""
        uses: dict[str, Json] = {}
        for entry, what in claims.items():
            if isinstance(what, str):
                uses[entry] = {"resourceClaimName": what}
            else:
                self.stage.api.create(objects.template(f"{name}-{entry}", what))
                uses[entry] = {"resourceClaimTemplateName": f"{name}-{entry}"}
        return self.stage.api.create(objects.pod_with(name, uses, **spec))

    def create_claim(self, name: str, spec: Json) -> Json:
        """A claim that pods name."""
        return self.stage.api.create(objects.claim(name, spec))

    def wait_bound(self, *names: str, timeout_s: float = 60.0) -> NodePods:
        """Wait until all of these pods are bound; where each is."""

        def are_bound(pods: list[Json]) -> bool:
            bound = {each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")}
            return set(names) <= bound

        found = self.stage.api.wait("Pod", NAMESPACE, are_bound, what=f"{', '.join(names)} bound", timeout_s=timeout_s)
        return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in found if each["metadata"]["name"] in names}

    def claims_of(self, pod: str) -> dict[str, Json]:
        """The claims of a pod by their entry in it; those that are made for it must have been."""
        body = self.stage.api.get("Pod", NAMESPACE, pod) or {}
        made = {each["name"]: each["resourceClaimName"] for each in body.get("status", {}).get("resourceClaimStatuses", [])}
        named = {each["name"]: each.get("resourceClaimName") for each in body["spec"]["resourceClaims"]}
        found = {}
        for entry, name in named.items():
            claim = self.stage.api.get("ResourceClaim", NAMESPACE, name or made.get(entry, "none"))
            if claim is not None:
                found[entry] = claim
        return found

    def wait_allocated(self, pod: str, *, timeout_s: float = 60.0) -> dict[str, Json]:
        """Wait until all claims of a pod are allocated; the claims."""
        return self.wait_claims(pod, lambda claim: bool(is_allocated(claim)), what="allocated", timeout_s=timeout_s)

    def wait_claims(
        self, pod: str, condition: Callable[[Json], bool], *, what: str, timeout_s: float = 60.0
    ) -> dict[str, Json]:
        """Wait until a condition holds for every claim of a pod; the claims."""
        count = len((self.stage.api.get("Pod", NAMESPACE, pod) or {})["spec"]["resourceClaims"])
        found: dict[str, Json] = {}

        def is_so(_: list[Json]) -> bool:
            nonlocal found
            found = self.claims_of(pod)
            return len(found) == count and all(condition(each) for each in found.values())

        self.stage.api.wait("ResourceClaim", NAMESPACE, is_so, what=f"claims of pod {pod} {what}", timeout_s=timeout_s)
        return found

    def wait_claim(self, name: str, condition: Callable[[Json], bool], *, what: str, timeout_s: float = 60.0) -> Json:
        """Wait until a condition holds for a claim by its name."""

        def is_so(claims: list[Json]) -> bool:
            return any(each["metadata"]["name"] == name and condition(each) for each in claims)

        found = self.stage.api.wait("ResourceClaim", NAMESPACE, is_so, what=f"claim {name} {what}", timeout_s=timeout_s)
        return next(each for each in found if each["metadata"]["name"] == name)

    def delete_pods(self, *names: str) -> None:
        """Delete pods, at once where no kubelet ends them, and wait until they are gone."""
        for name in names:
            body = self.stage.api.get("Pod", NAMESPACE, name)
            if body is not None:
                has_kubelet = body["spec"].get("nodeName") == self.stage.layout.node
                self.stage.api.delete("Pod", NAMESPACE, name, grace_s=None if has_kubelet else 0)
        self.stage.wait_gone("Pod", names)

    # -- what is said

    def wait_event(self, name: str, *texts: str, reason: str = "", timeout_s: float = 30.0) -> str:
        """Wait for an event of the controller's about the object of this name whose text has all of these; its text."""

        def is_it(event: Json) -> bool:
            is_ours = str(event.get("reportingComponent", "")).endswith("/controller")
            is_about = event["involvedObject"].get("name") == name and reason in {"", event.get("reason")}
            return is_ours and is_about and all(text in event.get("message", "") for text in texts)

        def is_there(events: list[Json]) -> bool:
            return any(is_it(event) for event in events)

        what = f"event {reason} about {name} with {texts}"
        try:
            found = self.stage.api.wait("Event", NAMESPACE, is_there, what=what, timeout_s=timeout_s)
        except Exception as err:
            events = self.stage.api.find("Event", NAMESPACE)
            said = [event.get("message") for event in events if event["involvedObject"].get("name") == name]
            raise NotAsExpected(f"no {what}; said was {said[-20:]}") from err
        return next(str(event["message"]) for event in found if is_it(event))

    # -- the end

    def finish(self) -> None:
        """All pods go; then no claim may keep an allocation, and the watcher must have seen no double."""
        pods = [each["metadata"]["name"] for each in self.stage.api.find("Pod", NAMESPACE)]
        self.delete_pods(*pods)
        self.stage.api.wait(
            "ResourceClaim",
            NAMESPACE,
            lambda claims: not any(is_allocated(each) for each in claims),
            what="no allocation left after the pods went",
            timeout_s=60.0,
        )
        self.check_doubles()

    def check_doubles(self) -> None:
        """No device was in two claims, and the watcher missed nothing."""
        expect(not self.watch.doubles, f"devices in two claims: {'; '.join(self.watch.doubles[:5])}")
        expect(self.may_lose_place or not self.watch.gaps, "the watcher of claims lost its place")


@contextlib.contextmanager
def play(stage: Stage, fleet: Mapping[str, str] | None = None) -> Iterator[Play]:
    """Begin with nobody holding the lease, these fenced mock nodes (machines by name), and the watcher on."""
    release_lease(stage)
    with DoubleWatch(stage.api) as watch:
        if fleet:
            stage.fleet.add(fleet)
        made = Play(stage=stage, watch=watch)
        yield made
        made.finish()


def release_lease(stage: Stage) -> None:
    """As after a graceful stop: the next controller leads at once."""
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": SYSTEM_NAMESPACE},
        "spec": {"leaseDurationSeconds": 1},
    }
    where = stage.api.path("Lease", SYSTEM_NAMESPACE, LEASE)
    if stage.api.get("Lease", SYSTEM_NAMESPACE, LEASE) is None:
        stage.api.create(body)
    else:
        stage.api.request("PATCH", where, {"spec": {"holderIdentity": None}}, kind="application/merge-patch+json")


def is_allocated(claim: Json) -> bool:
    """It has an allocation."""
    return bool(claim.get("status", {}).get("allocation"))


def is_ours(claim: Json) -> bool:
    """It has one that the controller made: the annotation fits the devices. One that fits nothing is of a race that it lost."""
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    lines = sorted("\0".join((each["driver"], each["pool"], each["device"], each.get("shareID", ""))) for each in results)
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    return is_allocated(claim) and claim["metadata"].get("annotations", {}).get(OURS) == digest


def node_of(claim: Json) -> str:
    """The pool, which has the node's name."""
    return str(claim["status"]["allocation"]["devices"]["results"][0]["pool"])


def policy(**fields: str) -> Json:
    """A claim's config with a TopologyPolicy."""
    parameters = {"apiVersion": "gpu-dra.io/v1alpha1", "kind": "TopologyPolicy", **fields}
    return {"opaque": {"driver": objects.DRIVER, "parameters": parameters}}


def gpus(count: int = 1, *, config: Sequence[Json] = (), selector: str = FENCED, constraints: Sequence[Json] = ()) -> Json:
    """A claim's spec: so many GPUs of the controller's."""
    return objects.claim_spec([objects.exactly(count=count, selector=selector)], constraints, config)


def _find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
