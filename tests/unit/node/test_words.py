"""What people and the kubelet are told."""

from __future__ import annotations

from datetime import UTC, datetime

from driver.api.resource_v1 import Device
from driver.health.model import HEALTHY, Health, Kind, Trouble
from driver.names import DeviceName, PoolName
from driver.node.words import HealthSeen, Word, build_health, words_of_merge, words_of_reading
from driver.nvml.readings import GpuFailure
from driver.plugin.health import Health as DeviceState
from driver.resourceslice.inventory import GpuReplaced, Inventory, MergedDevices
from driver.topology.build import build_topology
from tests.unit.node.readings import failure, machine

FIRST, SECOND = DeviceName("gpu-0000-01-00-0"), DeviceName("gpu-0000-02-00-0")
POOL = PoolName("node-a")


def merged(*, lost: tuple[DeviceName, ...] = (), withdrawn: tuple[DeviceName, ...] = ()) -> MergedDevices:
    """Two devices, of which some went."""
    devices = tuple(Device(name=name) for name in (FIRST, SECOND))
    return MergedDevices(devices=devices, inventory=Inventory(), lost=lost, withdrawn=withdrawn, replaced=())


def seen(now: MergedDevices, *failures: GpuFailure, health: Health = HEALTHY) -> HealthSeen:
    """What the states follow from."""
    return HealthSeen(merged=now, failures=failures, health=health, partitions={})


def trouble(kind: Kind, message: str, *, is_warning: bool = False) -> Trouble:
    """Of the second GPU."""
    since = datetime(2026, 12, 2, 5, 0, tzinfo=UTC)
    return Trouble(device=SECOND, kind=kind, is_warning=is_warning, since=since, message=message, advice="Reset it.")


def test_a_gpu_that_failed_is_named_with_its_slot_and_the_reason() -> None:
    """The eighth of eight is in an event, by name."""
    reading = machine(0, failures=(failure(1), failure(2, is_lost=True), failure(3, has_pci=False)))
    words = words_of_reading(reading, build_topology(reading))
    assert [word.reason for word in words] == ["GpuFailed", "GpuLost", "GpuFailed"]
    assert words[0].message == "GPU 1 (gpu-0000-02-00-0) is left out: NVML nvmlDeviceGetUUID: UNKNOWN (999)"
    assert words[2].message.startswith("GPU 3 is left out")


def test_a_machine_without_gpus_is_said_and_is_no_warning() -> None:
    """A CPU node that the DaemonSet runs on by mistake is not sick."""
    (word,) = words_of_reading(machine(), build_topology(machine()))
    assert (word.reason, word.is_warning) == ("NoGpus", False)


def test_a_healthy_machine_gives_no_word() -> None:
    """Nothing to say is said."""
    assert words_of_reading(machine(0, 1), build_topology(machine(0, 1))) == ()
    assert words_of_merge(merged()) == ()


def test_lost_withdrawn_and_replaced_devices_are_told_apart() -> None:
    """Each has its own reason; a withdrawal is the end of the story, not a warning."""
    replaced = GpuReplaced(name=FIRST, old_uuid="GPU-a", new_uuid="GPU-b")
    devices = MergedDevices(devices=(), inventory=Inventory(), lost=(FIRST,), withdrawn=(SECOND,), replaced=(replaced,))
    assert [(word.reason, word.is_warning) for word in words_of_merge(devices)] == [
        ("DeviceLost", True),
        ("DeviceWithdrawn", False),
        ("GpuReplaced", True),
    ]
    assert Word(
        reason="GpuReplaced", message="another card is in the slot of gpu-0000-01-00-0: GPU-b, before GPU-a"
    ) in words_of_merge(devices)


def test_a_published_device_that_the_node_does_not_have_is_unhealthy_with_the_reason() -> None:
    """The kubelet shows the text in the pod's status."""
    health = build_health(POOL, seen(merged(lost=(SECOND,)), failure(1)), now_s=7)
    assert [(each.device, each.health, each.message) for each in health] == [
        (FIRST, DeviceState.HEALTHY, ""),
        (SECOND, DeviceState.UNHEALTHY, "NVML nvmlDeviceGetUUID: UNKNOWN (999)"),
    ]
    assert {each.last_updated_s for each in health} == {7}


def test_a_device_that_nvml_does_not_list_at_all_is_unhealthy_too() -> None:
    """A GPU that fell off the bus has no failure of its own."""
    (_, second) = build_health(POOL, seen(merged(lost=(SECOND,))), now_s=7)
    assert (second.health, second.message) == (DeviceState.UNHEALTHY, "the GPU is not there any more")


def test_a_device_with_a_trouble_is_unhealthy_and_its_neighbour_is_not() -> None:
    """The text tells what happened and since when: it is all that a pod's owner sees."""
    health = Health(
        troubles=(trouble(Kind.XID, "XID 79: the GPU fell off the bus"), trouble(Kind.THERMAL, "it is hot", is_warning=True))
    )
    first, second = build_health(POOL, seen(merged(), health=health), now_s=7)
    assert (first.health, first.message) == (DeviceState.HEALTHY, "")
    assert second.health is DeviceState.UNHEALTHY
    assert second.message == (
        "XID 79: the GPU fell off the bus (since 2026-12-02T05:00:00Z); it is hot (since 2026-12-02T05:00:00Z)"
    )


def test_a_device_that_is_only_warned_of_is_healthy_and_says_so() -> None:
    """It is given out, and whoever has it should know."""
    health = Health(troubles=(trouble(Kind.NVLINK, "NVLinks are down", is_warning=True),))
    _, second = build_health(POOL, seen(merged(), health=health), now_s=7)
    assert second.health is DeviceState.HEALTHY
    assert second.message.startswith("NVLinks are down")
