"""One leader on a cluster in memory, step by step: no threads, no sockets, a clock that stands still until it is moved.

``Desk.run`` lets everybody act in turn until nothing changes: the watches tell, the loop decides, the writer writes, and (where
they are let) kube-scheduler and kube-controller-manager do their part. ``Crash`` ends the leader between two requests.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from driver.api.resource_v1 import Device
from driver.controller.election.lease import ElectionSettings
from driver.controller.intake import RESOURCES, Source, Told
from driver.controller.loop import Clocks, Loop
from driver.controller.metrics import ControllerMetrics
from driver.controller.objects.model import Claim
from driver.controller.objects.ownership import ALLOCATION_ANNOTATION, FINALIZER, build_guard, digest_allocation
from driver.controller.settings import ControllerSettings
from driver.controller.writing.attempt import Attempts, WritePace
from driver.controller.writing.fence import Acknowledgement
from driver.controller.writing.writer import Job, Writer
from driver.errors import ApiError
from driver.kube.changes import plan_relist
from driver.kube.events import ObjectReference
from driver.kube.watch import Listed
from tests.fakes.cluster_life import ClusterLife, find_doubles, list_devices
from tests.fakes.kube_http import merge_patch
from tests.fakes.kube_kinds import kind_of
from tests.fakes.kube_objects import KubeObjects
from tests.fakes.kube_store import Matcher
from tests.unit.controller.memory_claim_api import MemoryClaimApi, decode
from tests.unit.controller.world import CLASSES, DRIVER, NAMESPACE, ROOM, gpus, request

Json = dict[str, Any]
V = TypeVar("V")
WALL_S = 1_800_000_000.0


class Crash(BaseException):
    """The process was killed: nothing of it goes on."""


class StillClock:
    """Seconds since the test began."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def steady_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return WALL_S + self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class Recorder:
    """What people were told."""

    told: list[tuple[str, str, str]] = field(default_factory=list)
    """Kind and name, reason, note."""

    def record(self, about: ObjectReference, reason: str, note: str, *, action: str, is_warning: bool = False) -> None:
        self.told.append((f"{about.kind} {about.name}", reason, note))

    def notes(self, about: str, reason: str) -> list[str]:
        return [note for what, why, note in self.told if (what, why) == (about, reason)]


class Desk:
    """A cluster and its leader."""

    def __init__(self, settings: ControllerSettings | None = None) -> None:
        self.objects = KubeObjects()
        self.life = ClusterLife(self.objects)
        self.clock = StillClock()
        self.settings = settings or plain_settings()
        self.may_write = True
        self.acknowledged: list[Acknowledgement] = []
        self.refuse_acknowledgement: Callable[[], ApiError] | None = None
        for name, spec in CLASSES.items():
            self.objects.create("deviceclasses", {"metadata": {"name": name}, "spec": dict(spec)})
        self.begin()

    def begin(self) -> None:
        """A new leader, which knows nothing."""
        self.jobs: list[Job] = []
        self.api = MemoryClaimApi(self.objects)
        self.recorder = Recorder()
        self.metrics = ControllerMetrics()
        attempts = Attempts(
            self.api,
            _Leadership(self),
            self.settings.pace,
            rng=random.Random(1),
            clock=self.clock.steady_s,
            pause=self.clock.advance,
        )
        self.attempts = attempts
        self.writer = Writer(attempts, self._acknowledge, wall=self.clock.wall_s)
        clocks = Clocks(steady_s=self.clock.steady_s, wall_s=self.clock.wall_s)
        self.loop = Loop(self.settings, self.jobs.append, self.recorder, self.metrics, clocks)
        self._known: dict[Source, dict[str, Any]] = {source: {} for source in Source}

    def _acknowledge(self, acknowledgement: Acknowledgement) -> None:
        self.acknowledged.append(acknowledgement)
        if self.refuse_acknowledgement is not None:
            raise self.refuse_acknowledgement()

    # -- time

    def tell(self) -> None:
        """The watches tell what is new."""
        for source, resource in RESOURCES.items():
            items = tuple(
                decode(each, resource.type_) for each in self.objects.store.select(kind_of(resource.plural), Matcher())[0]
            )
            for change in plan_relist(self._known[source], items):
                self.loop.put(Told(source=source, seen=change))
            self._known[source] = {each.metadata.uid: each for each in items}
            self.loop.put(Told(source=source, seen=Listed(resource_version="1", uids=frozenset())))

    def decide(self) -> None:
        """The loop takes in what it was told, and decides."""
        self.loop.take_all()
        self.loop.act()

    def write(self) -> int:
        """The writer does what there is to do; how much that was."""
        jobs, self.jobs[:] = list(self.jobs), []
        for job in jobs:
            self.loop.put(self.writer.run(job))
        return len(jobs)

    def run(self, *, schedules: bool = True, collects: bool = True) -> None:
        """Everybody acts in turn until nothing changes any more."""
        for _ in range(50):
            before = self.objects.store.version
            self.tell()
            self.decide()
            wrote = self.write()
            if schedules:
                self.life.schedule()
            if collects:
                self.life.collect()
            if not wrote and self.objects.store.version == before and not self.loop.is_halfway:
                return
        raise AssertionError("it never comes to rest")

    def advance(self, seconds: float, **how: bool) -> None:
        """Time goes by, second by second, and everybody acts."""
        for _ in range(round(seconds)):
            self.clock.advance(1.0)
            self.run(**how)

    # -- the world

    def add_node(self, name: str, devices: Sequence[Device] | int = 8, **spec: Any) -> None:
        held = gpus(devices) if isinstance(devices, int) else devices
        self.objects.create("nodes", {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": dict(ROOM)}})
        plain = msgspec.json.decode(msgspec.json.encode(held))
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": plain}
        self.objects.create("resourceslices", {"metadata": {"name": f"00000-{name}"}, "spec": spec})

    def add_claim(self, name: str, count: int = 1, *, devices: Mapping[str, Any] | None = None, **exactly: Any) -> Json:
        spec = {"devices": {"requests": [request(count=count, **exactly)], **(devices or {})}}
        return self.objects.create("resourceclaims", {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})

    def add_pod(self, name: str, *claims: str, **spec: Any) -> Json:
        entries = [{"name": each, "resourceClaimName": each} for each in claims]
        body = {"containers": [{"name": "main"}], "schedulerName": "default-scheduler", "resourceClaims": entries, **spec}
        return self.objects.create("pods", {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": body})

    def add_job(self, name: str, count: int = 1, **spec: Any) -> None:
        self.add_claim(name, count)
        self.add_pod(name, name, **spec)

    def delete_pod(self, name: str) -> None:
        self.objects.delete("pods", name, namespace=NAMESPACE)

    def allocate(self, name: str, node: str, *devices: str, **status: Any) -> None:
        """Somebody else allocates a claim."""
        results = [{"request": "gpus", "driver": DRIVER, "pool": node, "device": each} for each in devices]
        field_ = {"key": "metadata.name", "operator": "In", "values": [node]}
        selector = {"nodeSelectorTerms": [{"matchFields": [field_]}]}
        allocation = {"devices": {"results": results}, "nodeSelector": selector}
        self.set_status(name, {"allocation": allocation, **status})

    def mark_ours(self, name: str, *, is_guarded: bool = False) -> None:
        """Make an allocation ours, as a leader before wrote it."""
        claim = decode(self.claim(name), Claim)
        assert claim.status.allocation is not None
        digest = digest_allocation(claim.status.allocation.devices.results)
        mark = {"annotations": {ALLOCATION_ANNOTATION: digest}, "finalizers": [FINALIZER]}
        self.objects.edit("resourceclaims", name, lambda now: merge_patch(now, {"metadata": mark}), namespace=NAMESPACE)
        if is_guarded:
            guard = msgspec.to_builtins(build_guard(claim.metadata.uid))
            status = self.claim(name)["status"]
            self.set_status(name, status | {"reservedFor": [guard, *status.get("reservedFor", [])]})

    def set_status(self, name: str, status: Json) -> None:
        self.objects.edit("resourceclaims", name, lambda now: now | {"status": status}, namespace=NAMESPACE, is_status=True)

    # -- what is so

    def claim(self, name: str) -> Json:
        return next(each for each in self.objects.objects("resourceclaims") if each["metadata"]["name"] == name)

    def devices(self, name: str) -> list[str]:
        return sorted(f"{pool}/{device}" for _, pool, device in list_devices(self.claim(name)))

    def node(self, name: str) -> str:
        """The node of a claim's devices; empty where it has none."""
        return next((pool for _, pool, _ in list_devices(self.claim(name))), "")

    def reserved(self, name: str) -> list[str]:
        return [each["name"] for each in self.claim(name).get("status", {}).get("reservedFor", [])]

    def is_clean(self, name: str) -> bool:
        """Neither allocated, nor reserved, nor kept from being deleted."""
        claim = self.claim(name)
        return not claim.get("status") and not claim["metadata"].get("finalizers")

    def bound(self) -> dict[str, str]:
        pods = self.objects.objects("pods")
        return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in pods if each["spec"].get("nodeName")}

    def doubles(self) -> list[str]:
        return find_doubles(self.objects)


def plain_settings(**changes: Any) -> ControllerSettings:
    election = ElectionSettings(namespace="gpu-dra", name="controller", identity="one")
    return ControllerSettings(driver_name=DRIVER, election=election, pace=WritePace(), **changes)


@dataclass
class _Leadership:
    desk: Desk

    def may_write(self) -> bool:
        return self.desk.may_write
