"""GPUs that several claims divide by memory: which, how the API is told, and what is said where it cannot be."""

from __future__ import annotations

import pytest

from driver.api.resource_v1 import Attribute, Capacity, Counter, CounterConsumption, Device, Taint
from driver.resourceslice.shares import NO_SHARES, ShareSetting, parse_setting, share_device
from tests.fakes.claims import gpu

GPUS = [gpu(0), gpu(1)]
BY_NAME, BY_ADDRESS, BY_UUID = "gpu-0000-10-00-0", "0000:10:00.0", "GPU-00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("disabled", NO_SHARES),
        ("memory", ShareSetting(is_on=True)),
        (f"memory:{BY_NAME}, {BY_UUID}", ShareSetting(is_on=True, only=frozenset({BY_NAME, BY_UUID}))),
    ],
)
def test_the_setting_is_none_all_or_some(text: str, setting: ShareSetting) -> None:
    assert parse_setting(text) == setting


@pytest.mark.parametrize("text", ["", "memory:", "memory:,", "memory:a,,b", "unlimited", "4", "Memory"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="say disabled, memory, or memory:GPU,GPU"):
        parse_setting(text)


@pytest.mark.parametrize("name", [BY_NAME, BY_ADDRESS, BY_UUID], ids=["name", "address", "UUID"])
def test_a_gpu_may_be_named_in_three_ways(name: str) -> None:
    setting = ShareSetting(is_on=True, only=frozenset({name}))
    assert [setting.covers(each) for each in GPUS] == [True, False]
    assert setting.find_trouble(GPUS) == ()


def test_all_none_and_refused() -> None:
    assert [setting.covers(GPUS[0]) for setting in (ShareSetting(is_on=True), NO_SHARES, ShareSetting(is_refused=True))] == [
        True,
        False,
        False,
    ]


def test_what_cannot_be_done_is_said() -> None:
    stranger = ShareSetting(is_on=True, only=frozenset({"gpu-x", BY_NAME}))
    assert stranger.find_trouble(GPUS) == ("consumable shares are set for gpu-x, and this node has no such GPU",)
    (refused,) = ShareSetting(is_refused=True).find_trouble(GPUS)
    assert "Kubernetes 1.36" in refused


def device(memory: str | None) -> Device:
    return Device(
        name="gpu",
        attributes={"type": Attribute(string="gpu")},
        capacity={} if memory is None else {"memory": Capacity(value=memory)},
        consumes_counters=(CounterConsumption(counter_set="gpu", counters={"x": Counter(value="1")}),),
        taints=(Taint(key="k", effect="NoSchedule"),),
    )


def test_a_divided_gpu_keeps_all_else_and_gives_a_whole_one_to_whoever_says_nothing() -> None:
    before = device("81559Mi")
    shared = share_device(before)
    assert shared is not None
    policy = {"default": "81559Mi", "validRange": {"min": "1Mi", "max": "81559Mi", "step": "1Mi"}}
    assert shared.allow_multiple_allocations is True
    assert shared.capacity == {"memory": Capacity(value="81559Mi", request_policy=policy)}
    assert (shared.attributes, shared.consumes_counters, shared.taints) == (
        before.attributes,
        before.consumes_counters,
        before.taints,
    )


def test_memory_is_the_only_capacity_of_a_divided_gpu() -> None:
    """Of one without a policy the first share has all: on a GPU that claims also divide by MIG there was room for one share."""
    capacity = {"multiprocessors": Capacity(value="132"), "memory": Capacity(value="81559Mi")}
    shared = share_device(Device(name="gpu-0000-06-00-0", capacity=capacity))
    assert shared is not None
    assert list(shared.capacity) == ["memory"]


def test_what_is_over_whole_mib_is_given_to_nobody() -> None:
    """The API wants the range to end on a step."""
    shared = share_device(device("1073742000"))
    assert shared is not None
    assert shared.capacity["memory"] == Capacity(
        value="1073742000", request_policy={"default": "1Gi", "validRange": {"min": "1Mi", "max": "1Gi", "step": "1Mi"}}
    )


@pytest.mark.parametrize("memory", [None, "0", "1023Ki"], ids=["unknown", "none", "too little"])
def test_a_gpu_of_unknown_memory_is_not_divided(memory: str | None) -> None:
    assert share_device(device(memory)) is None
