"""Which devices a trouble taints, with what, and in which order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from driver.api.resource_v1 import Device, Taint
from driver.health.model import Health, Instance, Kind, Trouble
from driver.names import DeviceName
from driver.nvml.library import Placement
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.build import build_devices
from driver.resourceslice.health_taints import TaintRules, build_taint, taint_devices
from driver.topology.build import build_topology
from driver.topology.mig import Partition
from driver.topology.mig_offer import GpuOffer, MigSetting, OfferInputs, build_offers
from driver.topology.model import Topology
from tests.unit.resourceslice.mig_pools import NODE_UID, divisible
from tests.unit.topology.machines import machine, mig, mig_instance

GPU, OTHER = DeviceName("gpu-0000-01-00-0"), DeviceName("gpu-0000-02-00-0")
SINCE = datetime(2026, 12, 2, 5, tzinfo=UTC)
TIME = "2026-12-02T05:00:00Z"
FENCE = Taint(key="gpu.nvidia.com/allocator", value="controller", effect="NoSchedule", time_added="2026-12-01T00:00:00Z")
LOST = Taint(key="gpu.nvidia.com/gpu-lost", effect="NoSchedule")
RULES = TaintRules()


def trouble(
    kind: Kind,
    value: str = "",
    *,
    is_warning: bool = False,
    minutes: int = 0,
    instance: Instance | None = None,
    device: str = GPU,
) -> Trouble:
    return Trouble(
        device=DeviceName(device),
        instance=instance,
        kind=kind,
        value=value,
        is_warning=is_warning,
        since=SINCE + timedelta(minutes=minutes),
        message="something",
        advice="Reset it.",
    )


def taints_of(*troubles: Trouble, before: tuple[Taint, ...] = (), rules: TaintRules = RULES) -> tuple[Taint, ...]:
    (device,) = taint_devices([Device(name=GPU, taints=before)], Health(troubles=troubles), {}, rules)
    return device.taints


def test_a_healthy_node_is_published_as_it_is() -> None:
    devices = (Device(name=GPU, taints=(FENCE,)), Device(name=OTHER))
    assert taint_devices(devices, Health(), {}, RULES) == devices


def test_a_trouble_taints_its_gpu_with_its_moment_and_no_other() -> None:
    first, second = taint_devices(
        [Device(name=GPU), Device(name=OTHER)], Health(troubles=(trouble(Kind.XID, "79"),)), {}, RULES
    )
    assert first.taints == (Taint(key="gpu.nvidia.com/xid", value="79", effect="NoSchedule", time_added=TIME),)
    assert second == Device(name=OTHER)


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_key_of_its_own(kind: Kind) -> None:
    taint = build_taint(trouble(kind), RULES)
    assert taint.key == f"gpu.nvidia.com/{kind.value}"
    assert taint.key != FENCE.key


def test_pods_are_evicted_by_the_setting_alone_and_never_for_a_warning() -> None:
    rules = TaintRules(evicts=frozenset({Kind.ECC, Kind.THERMAL}))
    effects = [
        build_taint(each, rules).effect
        for each in (trouble(Kind.ECC), trouble(Kind.XID, "79"), trouble(Kind.THERMAL, is_warning=True))
    ]
    assert effects == ["NoExecute", "NoSchedule", "None"]


def test_of_several_of_a_kind_the_first_makes_the_taint() -> None:
    """A younger one that comes and goes must not move the moment that eviction counts from."""
    (taint,) = taints_of(trouble(Kind.XID, "95"), trouble(Kind.XID, "48", minutes=5))
    assert (taint.value, taint.time_added) == ("95", TIME)


def test_the_fence_is_first_then_the_heavier_effects() -> None:
    """R20."""
    rules = TaintRules(evicts=frozenset({Kind.ECC}))
    taints = taints_of(
        trouble(Kind.XID, "48"), trouble(Kind.ECC), trouble(Kind.NVLINK, is_warning=True), before=(FENCE,), rules=rules
    )
    assert [each.key.removeprefix("gpu.nvidia.com/") for each in taints] == ["allocator", "ecc", "xid", "nvlink"]


def test_what_is_too_much_goes_from_the_end() -> None:
    """Kubernetes 1.34 takes four: the fence is never among those that go."""
    rules = TaintRules(limit=4, evicts=frozenset({Kind.ECC}))
    troubles = [trouble(kind) for kind in (Kind.XID, Kind.RECOVERY, Kind.REMAPPED_ROWS, Kind.ECC)]
    taints = taints_of(*troubles, trouble(Kind.NVLINK, is_warning=True), before=(FENCE,), rules=rules)
    assert [each.key.removeprefix("gpu.nvidia.com/") for each in taints] == ["allocator", "ecc", "xid", "recovery"]


def test_all_kinds_at_once_fit_beside_the_fence() -> None:
    assert len(taints_of(*(trouble(kind) for kind in Kind), before=(FENCE,))) == len(Kind) + 1 <= RULES.limit


def test_a_server_that_takes_no_warnings_gets_none() -> None:
    rules = TaintRules(keeps_warnings=False)
    assert taints_of(trouble(Kind.NVLINK, is_warning=True), before=(FENCE,), rules=rules) == (FENCE,)
    assert len(taints_of(trouble(Kind.XID, "79"), trouble(Kind.NVLINK, is_warning=True), rules=rules)) == 1


def test_where_no_taint_is_kept_a_sick_device_is_not_published_and_a_warned_one_is() -> None:
    """Kubernetes 1.34 and 1.35, whose gate is off: kube-scheduler would give it out."""
    rules = TaintRules(keeps_taints=False, keeps_warnings=False)
    health = Health(troubles=(trouble(Kind.XID, "79"), trouble(Kind.THERMAL, is_warning=True, device=OTHER)))
    assert taint_devices([Device(name=GPU), Device(name=OTHER)], health, {}, rules) == (Device(name=OTHER),)


def test_a_lost_device_has_its_taint_once_with_the_moment_that_is_known() -> None:
    assert taints_of(trouble(Kind.GPU_LOST), before=(LOST,)) == (Taint(key=LOST.key, effect="NoSchedule", time_added=TIME),)


def mig_node() -> tuple[Topology, tuple[GpuOffer, ...]]:
    """Two GPUs that claims divide."""
    topology = build_topology(machine([divisible(0, "h100-80gb"), divisible(1, "h100-80gb")]))
    return topology, build_offers(topology, OfferInputs(setting=MigSetting.DYNAMIC, has_counters=True))


def tainted(found: Trouble) -> list[str]:
    """The devices of that node that a trouble taints."""
    topology, offers = mig_node()
    devices = build_devices(topology, node_uid=NODE_UID, allocator=Allocator.SCHEDULER, offers=offers).devices
    partitions: dict[str, Partition] = {each.name: each for offer in offers for each in offer.partitions}
    return [each.name for each in taint_devices(devices, Health(troubles=(found,)), partitions, RULES) if each.taints]


def test_a_whole_gpus_trouble_concerns_all_that_it_is_divided_into() -> None:
    """NVIDIA's driver ignores it (facts 1.13)."""
    topology, offers = mig_node()
    gpu = topology.gpus[0].name
    names = tainted(trouble(Kind.XID, "79", device=gpu))
    assert len(names) == 1 + len(offers[0].partitions)
    assert all(name.startswith(gpu) for name in names)


def test_an_instances_trouble_concerns_what_lies_where_it_lay() -> None:
    topology, offers = mig_node()
    gpu = topology.gpus[0].name
    names = tainted(trouble(Kind.XID, "48", device=gpu, instance=Instance(gpu_instance_id=9, start=6, size=2)))
    there = Placement(start=6, size=2)
    expected = {
        each.name
        for each in offers[0].partitions
        if each.placement.start < there.start + there.size and there.start < each.placement.start + each.placement.size
    }
    assert set(names) == expected | {gpu}
    assert 0 < len(expected) < len(offers[0].partitions)


def test_an_instance_that_nobody_could_find_any_more_concerns_the_whole_gpu_alone() -> None:
    topology, _ = mig_node()
    gpu = topology.gpus[0].name
    assert tainted(trouble(Kind.XID, "48", device=gpu, instance=Instance(gpu_instance_id=9))) == [gpu]


@pytest.mark.parametrize(
    ("instance", "hit"),
    [
        (Instance(gpu_instance_id=1, start=0, size=1), ["1"]),
        (Instance(gpu_instance_id=1), ["1"]),
        (Instance(gpu_instance_id=2, start=4, size=4), ["2"]),
        (Instance(gpu_instance_id=1, start=4, size=4), []),
        (Instance(gpu_instance_id=7), []),
        (None, ["1", "2"]),
    ],
    ids=["by-place", "by-number", "the-other", "number-given-out-again", "gone", "whole-gpu"],
)
def test_instances_that_are_there_are_told_apart(instance: Instance | None, hit: list[str]) -> None:
    """A static node: whose number is the same as that of an instance that lay elsewhere has nothing of its trouble."""
    made = (mig_instance("h100-80gb", 19, 0, number=1), mig_instance("h100-80gb", 9, 4, number=2))
    topology = build_topology(machine([divisible(0, "h100-80gb", mig("h100-80gb", *made))]))
    offers = build_offers(topology, OfferInputs(setting=MigSetting.STATIC, has_counters=True))
    partitions = {str(each.name): each for each in offers[0].partitions}
    found = trouble(Kind.XID, "48", device=topology.gpus[0].name, instance=instance)
    devices = taint_devices([Device(name=name) for name in partitions], Health(troubles=(found,)), partitions, RULES)
    ids = [str(made_.gpu_instance_id) for each in devices if each.taints and (made_ := partitions[each.name].made)]
    assert sorted(ids) == hit
