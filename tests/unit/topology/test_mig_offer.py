"""What of a GPU may be given out."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from driver.names import DeviceName, GpuUUID
from driver.nvml.enums import VirtualizationMode
from driver.nvml.library import Placement
from driver.nvml.readings import GpuReading, MigReading
from driver.topology.build import build_topology
from driver.topology.mig import MadeInstance, OwnedInstance
from driver.topology.mig_names import MigIdentity
from driver.topology.mig_offer import GpuOffer, MigSetting, OfferInputs, build_offers, explain_not_dynamic, find_ownerless
from tests.unit.topology.machines import ampere, gpu, hopper, machine, mig, mig_instance, pci

H, A = "h100-80gb", "a100-40gb"
DYNAMIC = 25
UUID = GpuUUID("GPU-00000000-0000-0000-0000-000000000000")
THREE = mig_instance(H, 9, 4, number=1)
OURS = frozenset({OwnedInstance(gpu_uuid=UUID, profile_id=9, start=4)})


def offer(
    reading: GpuReading,
    setting: MigSetting = MigSetting.AUTO,
    *,
    has_counters: bool = True,
    owned: Collection[OwnedInstance] = frozenset(),
    unconfirmed: Collection[str] = frozenset(),
) -> GpuOffer:
    inputs = OfferInputs(setting=setting, has_counters=has_counters, owned=owned, unconfirmed=unconfirmed)
    (found,) = build_offers(build_topology(machine([reading])), inputs)
    return found


def shape(found: GpuOffer) -> tuple[bool, int, bool]:
    """Whether the whole GPU is offered, how many MIG devices, and whether claims make them."""
    return found.is_whole, len(found.partitions), found.is_dynamic


CASES = {
    # reading, setting, what is offered
    "no MIG at all": (gpu(0), MigSetting.DYNAMIC, (True, 0, False)),
    "Hopper, free, auto": (hopper(0, mig(H)), MigSetting.AUTO, (True, DYNAMIC, True)),
    "Hopper, free, dynamic": (hopper(0, mig(H)), MigSetting.DYNAMIC, (True, DYNAMIC, True)),
    "Hopper, free, static": (hopper(0, mig(H)), MigSetting.STATIC, (True, 0, False)),
    "Hopper, free, off": (hopper(0, mig(H)), MigSetting.OFF, (True, 0, False)),
    "Hopper, an administrator's 3g, auto": (hopper(0, mig(H, THREE)), MigSetting.AUTO, (False, 1, False)),
    "Hopper, an administrator's 3g, dynamic": (hopper(0, mig(H, THREE)), MigSetting.DYNAMIC, (False, DYNAMIC, True)),
    "Hopper, an administrator's 3g, off": (hopper(0, mig(H, THREE)), MigSetting.OFF, (False, 0, False)),
    "Hopper, MIG mode without devices, auto": (hopper(0, mig(H, is_enabled=True)), MigSetting.AUTO, (False, 0, False)),
    "Hopper, MIG mode without devices, dynamic": (
        hopper(0, mig(H, is_enabled=True)),
        MigSetting.DYNAMIC,
        (True, DYNAMIC, True),
    ),
    "Ampere, free, auto": (ampere(0, mig(A)), MigSetting.AUTO, (True, 0, False)),
    "Ampere, free, dynamic": (ampere(0, mig(A)), MigSetting.DYNAMIC, (True, 0, False)),
    "Ampere, MIG mode, auto": (ampere(0, mig(A, is_enabled=True)), MigSetting.AUTO, (False, 0, False)),
    "Ampere, MIG mode, dynamic": (ampere(0, mig(A, is_enabled=True)), MigSetting.DYNAMIC, (False, DYNAMIC, True)),
    "a reset is pending": (hopper(0, mig(H, is_enabled=False, pending=True)), MigSetting.DYNAMIC, (True, 0, False)),
    "a reset is pending the other way": (
        hopper(0, mig(H, THREE, is_enabled=True, pending=False)),
        MigSetting.DYNAMIC,
        (False, 1, False),
    ),
    "a virtual GPU": (
        hopper(0, mig(H), virtualization_mode=VirtualizationMode.VGPU.value),
        MigSetting.DYNAMIC,
        (True, 0, False),
    ),
    "a host of virtual GPUs": (
        hopper(0, mig(H), virtualization_mode=VirtualizationMode.HOST_VGPU.value),
        MigSetting.DYNAMIC,
        (False, 0, False),
    ),
    "passed through to a virtual machine": (
        hopper(0, mig(H), virtualization_mode=VirtualizationMode.PASSTHROUGH.value),
        MigSetting.AUTO,
        (True, DYNAMIC, True),
    ),
    "no profiles are told": (
        hopper(0, MigReading(is_enabled=False, is_enabled_after_reset=False)),
        MigSetting.DYNAMIC,
        (True, 0, False),
    ),
}


@pytest.mark.parametrize(("reading", "setting", "expected"), CASES.values(), ids=CASES.keys())
def test_what_is_offered(reading: GpuReading, setting: MigSetting, expected: tuple[bool, int, bool]) -> None:
    assert shape(offer(reading, setting)) == expected


@pytest.mark.parametrize("setting", MigSetting)
@pytest.mark.parametrize("mode", [VirtualizationMode.HOST_VGPU, VirtualizationMode.HOST_VSGA])
def test_a_gpu_that_serves_virtual_machines_is_not_given_to_containers(mode: VirtualizationMode, setting: MigSetting) -> None:
    """The host's driver has no CUDA: every claim of it would fail (B30).

    https://github.com/DualCoder/vgpu_unlock/issues/51, https://github.com/NVIDIA/kubevirt-gpu-device-plugin/issues/5
    """
    for reading in (gpu(0, virtualization_mode=mode.value), hopper(0, mig(H, THREE), virtualization_mode=mode.value)):
        found = offer(reading, setting)
        assert shape(found) == (False, 0, False)
        assert "serves virtual GPUs" in found.note


@pytest.mark.parametrize("setting", [MigSetting.AUTO, MigSetting.DYNAMIC])
def test_without_shared_counters_nothing_is_divided(setting: MigSetting) -> None:
    """Kubernetes 1.34 and 1.35: overlapping devices would be given out side by side."""
    assert shape(offer(hopper(0, mig(H)), setting, has_counters=False)) == (True, 0, False)
    assert shape(offer(hopper(0, mig(H, THREE)), setting, has_counters=False)) == (False, 1, False)


def test_a_gpu_that_claims_have_divided_stays_divided() -> None:
    """After a restart in auto, MIG mode is on by our own hand."""
    assert shape(offer(hopper(0, mig(H, THREE)), owned=OURS)) == (True, DYNAMIC, True)


def test_what_is_seen_for_the_first_time_changes_nothing_yet() -> None:
    """A claim may have ended between the reading of the machine and that of the records."""
    for reading in (hopper(0, mig(H, THREE)), hopper(0, mig(H, is_enabled=True))):
        assert shape(offer(reading, unconfirmed={UUID})) == (True, DYNAMIC, True)
        assert offer(reading, unconfirmed={UUID}).foreign == ()


def test_a_claims_instance_beside_an_administrators_leaves_both_alone() -> None:
    other = mig_instance(H, 14, 0, number=3)
    found = offer(hopper(0, mig(H, THREE, other)), owned=OURS)
    assert (found.is_dynamic, found.is_whole, found.foreign) == (True, False, (other,))
    assert "no claim made" in found.note


def test_only_what_changes_at_once_is_switched() -> None:
    assert offer(hopper(0, mig(H)), MigSetting.DYNAMIC).can_switch
    assert not offer(ampere(0, mig(A, is_enabled=True)), MigSetting.DYNAMIC).can_switch


REASONS = {
    "cannot do MIG": gpu(0),
    "virtual": hopper(0, mig(H), virtualization_mode=VirtualizationMode.VGPU.value),
    "waits for a reset": hopper(0, mig(H, is_enabled=True, pending=False)),
    "only with a reset": ampere(0, mig(A)),
    "no placements": hopper(0, MigReading(is_enabled=True, is_enabled_after_reset=True)),
}


@pytest.mark.parametrize(("words", "reading"), REASONS.items(), ids=REASONS.keys())
def test_a_gpu_that_is_not_divided_though_asked_for_says_why(words: str, reading: GpuReading) -> None:
    assert words in explain_not_dynamic(reading)
    if reading.mig is not None:
        assert words in offer(reading, MigSetting.DYNAMIC).note
        assert words not in offer(reading, MigSetting.AUTO).note


def test_a_static_device_has_what_a_container_needs() -> None:
    (found,) = offer(hopper(0, mig(H, THREE)), MigSetting.STATIC).partitions
    assert found.made == MadeInstance(gpu_instance_id=1, compute_instance_id=0, uuid="MIG-1-0")
    assert (found.text, found.placement, found.multiprocessors) == ("3g.40gb", Placement(start=4, size=4), 60)
    assert found.name == "gpu-0000-10-00-0-mig-3g-40gb-p9-4"


def test_a_half_made_instance_is_no_device() -> None:
    assert offer(hopper(0, mig(H, mig_instance(H, 9, 4, parts=0))), MigSetting.STATIC).partitions == ()


def test_parts_of_an_instance_are_devices_of_their_own() -> None:
    parts = offer(hopper(0, mig(H, mig_instance(H, 14, 2, parts=2, number=5))), MigSetting.STATIC).partitions
    assert [each.name for each in parts] == [
        "gpu-0000-10-00-0-mig-1c-2g-20gb-p14-2-c0-0",
        "gpu-0000-10-00-0-mig-1c-2g-20gb-p14-2-c0-1",
    ]
    assert not parts[0].footprint.overlaps(parts[1].footprint)


def test_a_device_keeps_the_name_that_it_is_published_under() -> None:
    """R2: the driver calls 1g.23gb 1g.24gb after an upgrade; a claim holds the old name."""
    identity = MigIdentity(gpu=pci(0), profile_id=19, start=3)
    old = DeviceName("gpu-0000-10-00-0-mig-1g-9gb-p19-3")
    inputs = OfferInputs(setting=MigSetting.DYNAMIC, has_counters=True, names={identity: old})
    (found,) = build_offers(build_topology(machine([hopper(0, mig(H))])), inputs)
    assert [each.name for each in found.partitions if each.identity == identity] == [old]


OWNERLESS = {
    "MIG off": (mig(H), frozenset(), False),
    "MIG mode for nobody": (mig(H, is_enabled=True), frozenset(), True),
    "an instance of nobody": (mig(H, THREE), frozenset(), True),
    "ours": (mig(H, THREE), OURS, False),
    "ours, and one of nobody": (mig(H, THREE, mig_instance(H, 19, 0)), OURS, True),
}


@pytest.mark.parametrize(("reading", "owned", "is_found"), OWNERLESS.values(), ids=OWNERLESS.keys())
def test_gpus_with_something_of_nobody(reading: MigReading, owned: frozenset[OwnedInstance], is_found: bool) -> None:
    topology = build_topology(machine([hopper(0, reading), gpu(1)]))
    assert find_ownerless(topology, owned) == (frozenset({UUID}) if is_found else frozenset())
