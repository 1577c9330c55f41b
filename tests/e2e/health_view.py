"""How sick devices show: in the slices, the kubelet's states, the claims' conditions, and events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from driver.nvml.mock.faults import Fault, XidEvent
from driver.nvml.mock.machine import write_faults
from hack.devcluster.processes import wait_until
from tests.e2e import objects
from tests.e2e.kube import Json
from tests.e2e.objects import NAMESPACE
from tests.e2e.stage import Stage, expect

WITHIN_S = 30.0
_CLEARED_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True, order=True)
class SeenTaint:
    """A taint of health, with its moment."""

    key: str
    value: str
    effect: str
    added: str


def play(stage: Stage, *faults: Fault) -> None:
    """From now on these are the machine's faults."""
    write_faults(stage.folders.mock_state, faults)


def read_taints(slices: Sequence[Json]) -> Mapping[str, tuple[SeenTaint, ...]]:
    """Those of each device that has any, without the fence."""
    devices = objects.slice_devices(slices)
    found = {
        name: tuple(
            sorted(
                SeenTaint(each["key"].removeprefix("gpu.nvidia.com/"), each.get("value", ""), each["effect"], each["timeAdded"])
                for each in device.get("taints") or []
                if not each["key"].endswith("/allocator")
            )
        )
        for name, device in devices.items()
    }
    return {name: taints for name, taints in found.items() if taints}


def wait_tainted(
    stage: Stage, wanted: Mapping[str, set[tuple[str, str, str]]], *, timeout_s: float = WITHIN_S
) -> Mapping[str, tuple[SeenTaint, ...]]:
    """Wait until just these devices have just these taints: key, value and effect."""

    def is_so(slices: list[Json]) -> bool:
        taints = read_taints(slices)
        return objects.is_pool_complete(slices) and wanted == {
            name: {(each.key, each.value, each.effect) for each in own} for name, own in taints.items()
        }

    what = f"the taints {wanted}"
    slices = stage.api.wait("ResourceSlice", None, is_so, what=what, query=stage.pool_query, timeout_s=timeout_s)
    return read_taints(slices)


def wait_among_tainted(stage: Stage, names: Set[str]) -> frozenset[str]:
    """Wait until these devices have taints; all devices that have."""

    def are_so(slices: list[Json]) -> bool:
        return objects.is_pool_complete(slices) and names <= set(read_taints(slices))

    what = f"taints of {sorted(names)}"
    slices = stage.api.wait("ResourceSlice", None, are_so, what=what, query=stage.pool_query, timeout_s=WITHIN_S)
    return frozenset(read_taints(slices))


def recover(stage: Stage, gpu: int, *others: Fault) -> Mapping[str, tuple[SeenTaint, ...]]:
    """Have the GPU say that nothing is to be done about it, and be looked at, until no device of the node is tainted."""
    attempt = 0

    def is_clear() -> bool:
        nonlocal attempt
        attempt += 1
        play(stage, *others, XidEvent(gpu=gpu, xid=13, id=f"look {attempt}"))
        return not read_taints(stage.api.find("ResourceSlice", query=stage.pool_query))

    expect(wait_until(is_clear, timeout_s=_CLEARED_WITHIN_S, interval_s=2.0), "the taints stay after the recovery")
    return read_taints(stage.wait_pool())


def read_states(pod: Json) -> Mapping[str, str]:
    """What the kubelet shows of the pod's devices, by resource id."""
    statuses = [
        each
        for container in pod["status"].get("containerStatuses", [])
        for each in container.get("allocatedResourcesStatus", [])
    ]
    return {each["resourceID"]: each["health"] for status in statuses for each in status.get("resources", [])}


def wait_state(stage: Stage, pod: str, state: str) -> None:
    """Wait until the kubelet shows all devices of the pod so; older ones do not."""
    if stage.minor >= 36:
        stage.wait_pod(pod, lambda body: set(read_states(body).values()) == {state}, what=f"with devices {state}")


def read_condition(claim: Json) -> Mapping[str, tuple[str, str]]:
    """Status and reason of the condition ``Healthy``, by device."""
    return {
        each["device"]: (condition["status"], condition["reason"])
        for each in claim["status"].get("devices", [])
        for condition in each.get("conditions", [])
        if condition["type"] == "Healthy"
    }


def wait_condition(stage: Stage, pod: str, wanted: Mapping[str, tuple[str, str]]) -> Json:
    """Wait until the claim of the pod says just this; the claim."""
    name = stage.read_claim_of(pod)["metadata"]["name"]

    def is_so(claims: list[Json]) -> bool:
        return bool(claims) and read_condition(claims[0]) == wanted

    query = f"fieldSelector=metadata.name%3D{name}"
    what = f"the condition {wanted} of claim {name}"
    return stage.api.wait("ResourceClaim", NAMESPACE, is_so, what=what, query=query, timeout_s=WITHIN_S)[0]


def wait_message(stage: Stage, pod: str, text: str) -> None:
    """Wait until the condition of the pod's claim says this."""

    def is_said() -> bool:
        return text in str(stage.read_claim_of(pod)["status"].get("devices"))

    expect(wait_until(is_said, timeout_s=WITHIN_S), f"the claim of {pod} does not say {text}")


def wait_event(stage: Stage, kind: str, name: str, reason: str, text: str) -> str:
    """Wait until this was said of the object."""
    namespace = None if kind == "Node" else NAMESPACE
    messages: list[str] = []

    def is_said(events: list[Json]) -> bool:
        messages[:] = [each["message"] for each in events if each["reason"] == reason and text in each["message"]]
        return bool(messages)

    query = f"fieldSelector=involvedObject.kind%3D{kind},involvedObject.name%3D{name}"
    stage.api.wait("Event", namespace, is_said, what=f"{reason} on {kind} {name}", query=query, timeout_s=WITHIN_S)
    return messages[0]


def select(stage: Stage, name: str) -> Json:
    """A request for the device of this name."""
    uuid = objects.attribute(objects.slice_devices(stage.wait_pool())[name], "uuid")
    return objects.exactly(selector=f'device.attributes["gpu.nvidia.com"].uuid == "{uuid}"')


def count_restarts(stage: Stage, pod: str) -> int:
    """How often the pod's containers began anew."""
    body = stage.api.get("Pod", NAMESPACE, pod) or {}
    return sum(each["restartCount"] for each in body["status"]["containerStatuses"])
