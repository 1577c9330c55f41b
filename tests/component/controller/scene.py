"""A cluster in one process: the fake API server with fenced nodes, who else lives there, and controllers to be started."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from driver.api.resource_v1 import Device
from driver.controller.controller import Controller
from driver.controller.deciding.lessons import LessonRule
from driver.controller.deciding.takeback import IdleRule
from driver.controller.election.lease import ElectionSettings
from driver.controller.settings import ControllerSettings
from driver.controller.writing.attempt import WritePace
from driver.errors import DriverError
from tests.fakes.cluster_life import ClusterLife, find_doubles, list_devices
from tests.fakes.kube_api import FakeKubeApi
from tests.unit.controller.world import CLASSES, DRIVER, NAMESPACE, ROOM, gpus, request

Json = dict[str, Any]
SOON_S = 30.0


def quick_settings(name: str = "one", **changes: Any) -> ControllerSettings:
    """Settings whose waits suit a test: everything that takes a minute takes half a second."""
    election = ElectionSettings(
        namespace="gpu-dra", name="controller", identity=name, lease_s=3.0, renew_s=2.0, retry_s=0.2, request_timeout_s=1.0
    )
    pace = WritePace(give_up_s=5.0, backoff_base_s=0.01, backoff_cap_s=0.1, withdraw_s=0.05)
    idle = IdleRule(unbound_s=1.0, gone_s=0.5)
    lessons = LessonRule(settle_s=0.3, avoid_s=2.0, refused_s=0.3)
    whole: dict[str, Any] = {"election": election, "pace": pace, "idle": idle, "lessons": lessons, **changes}
    return ControllerSettings(driver_name=DRIVER, health_address="127.0.0.1:0", **whole)


@dataclass
class Running:
    """A controller with its main thread."""

    controller: Controller
    error: DriverError | None = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def stop(self) -> bool:
        """As SIGTERM."""
        self.controller.ask_end()
        self.thread.join(SOON_S)
        assert not self.thread.is_alive()
        return self.controller.stop(5.0)

    def _run(self) -> None:
        try:
            self.controller.run()
        except DriverError as err:
            self.error = err


class Scene:
    """What tests do to the cluster, and read of it."""

    def __init__(self, api: FakeKubeApi) -> None:
        self.api = api
        self.life = ClusterLife(api)
        self.running: list[Running] = []
        for name, spec in CLASSES.items():
            api.create("deviceclasses", {"metadata": {"name": name}, "spec": dict(spec)})

    # -- controllers

    def start(self, name: str = "one", **changes: Any) -> Running:
        """A controller; it may not lead yet."""
        made = Running(Controller(quick_settings(name, **changes), self.api.credentials()))
        self.running.append(made)
        return made

    def stop(self, running: Running) -> None:
        self.running.remove(running)
        assert running.stop()

    # -- objects

    def add_node(self, name: str, devices: Sequence[Device] | int = 8, **spec: Any) -> None:
        """A node with fenced GPUs."""
        held = gpus(devices) if isinstance(devices, int) else devices
        node = self.api.create("nodes", {"metadata": {"name": name}, "spec": spec})
        assert node
        self.api.edit("nodes", name, lambda now: now | {"status": {"allocatable": dict(ROOM)}}, is_status=True)
        plain = msgspec.json.decode(msgspec.json.encode(held))
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        body = {
            "metadata": {"name": f"00000-{name}"},
            "spec": {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": plain},
        }
        self.api.create("resourceslices", body)

    def add_claim(self, name: str, count: int = 1, **exactly: Any) -> Json:
        """A claim for so many GPUs."""
        body = {"metadata": {"name": name, "namespace": NAMESPACE}}
        return self.api.create("resourceclaims", {**body, "spec": {"devices": {"requests": [request(count=count, **exactly)]}}})

    def add_pod(self, name: str, *claims: str, **spec: Any) -> Json:
        """A pod that waits for these claims."""
        entries = [{"name": each, "resourceClaimName": each} for each in claims]
        body = {"containers": [{"name": "main"}], "schedulerName": "default-scheduler", "resourceClaims": entries, **spec}
        return self.api.create("pods", {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": body})

    def add_job(self, name: str, count: int = 1, **spec: Any) -> None:
        """A pod and its claim, of the same name."""
        self.add_claim(name, count)
        self.add_pod(name, name, **spec)

    def delete_pod(self, name: str) -> None:
        self.api.delete("pods", name, namespace=NAMESPACE)

    # -- what is so

    def claim(self, name: str) -> Json | None:
        return next((each for each in self.api.objects("resourceclaims") if each["metadata"]["name"] == name), None)

    def devices(self, name: str) -> list[str]:
        """The devices of a claim, as ``node/device``."""
        return sorted(f"{pool}/{device}" for _, pool, device in list_devices(self.claim(name)))

    def reserved(self, name: str) -> list[str]:
        """Who a claim is reserved for."""
        claim = self.claim(name) or {}
        return [each["name"] for each in claim.get("status", {}).get("reservedFor", [])]

    def bound(self) -> dict[str, str]:
        """Pods with their nodes."""
        pods = self.api.objects("pods")
        return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in pods if each["spec"].get("nodeName")}

    def events(self, reason: str) -> list[str]:
        """What was said, once a note."""
        notes = [each["note"] for each in self.api.objects("events") if each["reason"] == reason]
        return list(dict.fromkeys(notes))

    def held(self) -> Mapping[str, list[str]]:
        """Devices of all claims, by claim; without those that have none."""
        names = [each["metadata"]["name"] for each in self.api.objects("resourceclaims")]
        return {name: self.devices(name) for name in names if self.devices(name)}

    def wait(self, is_true: Callable[[], object], what: str = "", timeout_s: float = SOON_S) -> None:
        """Wait until it is so, or fail."""
        deadline = time.monotonic() + timeout_s
        while not is_true():
            for each in self.running:
                assert each.error is None, each.error
            assert time.monotonic() < deadline, f"{what or 'it'} did not become true: {self.held()}, {self.bound()}"
            time.sleep(0.01)

    def wait_bound(self, *names: str) -> None:
        self.wait(lambda: set(names) <= self.bound().keys(), f"{', '.join(names)} bound")

    def check(self) -> None:
        """What must hold at any time."""
        assert find_doubles(self.api) == []


@contextlib.contextmanager
def scene() -> Iterator[Scene]:
    """An empty cluster with the classes; what runs is stopped at the end, and no device was ever in two claims."""
    with FakeKubeApi() as api:
        made = Scene(api)
        try:
            yield made
        finally:
            for each in tuple(made.running):
                each.stop()
        made.check()
