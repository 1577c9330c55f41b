"""The table of configs and its words: each fault with its path, what is wrong with it, and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.api.config_schema import ODD_NUMBER, find_faults
from driver.api.gpu_config import GPU_CONFIG, MIG_CONFIG, NVIDIA_VERSION
from driver.api.sharing import GPU_SHARING, MIG_SHARING, build_sharing

MEMORY_WORDS = "is no amount of memory from 1Mi to 1Pi such as 10Gi"


def mps(**config: Any) -> dict[str, Any]:
    return {"strategy": "MPS", "mpsConfig": config}


@pytest.mark.parametrize(
    ("sharing", "faults"),
    [
        (5, ["sharing: 5 is no object"]),
        ([], ["sharing: a list is no object"]),
        ({}, ["sharing.strategy: missing, allowed are TimeSlicing, MPS"]),
        ({"strategy": None}, ["sharing.strategy: missing, allowed are TimeSlicing, MPS"]),
        ({"strategy": "mps"}, ['sharing.strategy: "mps" is not one of TimeSlicing, MPS']),
        ({"strategy": "a\nb"}, ["sharing.strategy: a text that is not plain is not one of TimeSlicing, MPS"]),
        ({"strategy": "MPS", "x": 1}, ["sharing.x: unknown field, allowed are mpsConfig, strategy, timeSlicingConfig"]),
        (
            {"strategy": "MPS", "a\tb": 1},
            ["sharing.a field with an odd name: unknown field, allowed are mpsConfig, strategy, timeSlicingConfig"],
        ),
        (
            {"strategy": "MPS", "timeSlicingConfig": {}},
            ["sharing.timeSlicingConfig: only for strategy TimeSlicing; leave it out"],
        ),
        ({"strategy": "TimeSlicing", "mpsConfig": {}}, ["sharing.mpsConfig: only for strategy MPS; leave it out"]),
        (
            {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "long"}},
            ['sharing.timeSlicingConfig.interval: "long" is not one of Default, Short, Medium, Long'],
        ),
        (
            mps(defaultActiveThreadPercentage=0),
            [_percentage := "sharing.mpsConfig.defaultActiveThreadPercentage: 0 is no whole number from 1 to 100"],
        ),
        (mps(defaultActiveThreadPercentage=101), [_percentage.replace(" 0 ", " 101 ")]),
        (mps(defaultActiveThreadPercentage=True), [_percentage.replace(" 0 ", " true ")]),
        (mps(defaultActiveThreadPercentage=50.0), [_percentage.replace(" 0 ", f" {ODD_NUMBER} ")]),
        (mps(defaultActiveThreadPercentage="50"), [_percentage.replace(" 0 ", ' "50" ')]),
        (
            mps(defaultPinnedDeviceMemoryLimit="10GB"),
            [f'sharing.mpsConfig.defaultPinnedDeviceMemoryLimit: "10GB" {MEMORY_WORDS}'],
        ),
        (
            mps(defaultPinnedDeviceMemoryLimit="1023Ki"),
            [f'sharing.mpsConfig.defaultPinnedDeviceMemoryLimit: "1023Ki" {MEMORY_WORDS}'],
        ),
        (mps(defaultPinnedDeviceMemoryLimit=0), [f"sharing.mpsConfig.defaultPinnedDeviceMemoryLimit: 0 {MEMORY_WORDS}"]),
        (
            mps(defaultPerDevicePinnedMemoryLimit={"0": "0", "GPU-x": None, "gpu-1": "1Gi"}),
            [
                f'sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit[0]: "0" {MEMORY_WORDS}',
                "sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit[GPU-x]: missing",
                'sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit: "gpu-1" is no device: say its position (0 for the first) '
                "or its UUID (GPU-... or MIG-...)",
            ],
        ),
        (mps(multiUser="yes"), ['sharing.mpsConfig.multiUser: "yes" is neither true nor false']),
    ],
)
def test_b67_each_fault_is_said_with_its_path_and_what_is_allowed(sharing: object, faults: list[str]) -> None:
    assert find_faults(GPU_SHARING, sharing, "sharing") == faults


def test_b63_a_mig_device_has_no_time_slice() -> None:
    block = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}
    assert find_faults(MIG_SHARING, block, "sharing") == [
        "sharing.timeSlicingConfig: unknown field, allowed are mpsConfig, strategy"
    ]


def test_faults_at_every_depth_are_told_at_once() -> None:
    block = {"strategy": "MPS", "x": 1, "mpsConfig": {"multiUser": 1, "defaultActiveThreadPercentage": -1}}
    assert len(find_faults(GPU_CONFIG, {"apiVersion": NVIDIA_VERSION, "kind": "GpuConfig", "sharing": block, "y": 1})) == 4


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**40)
    | st.floats(allow_nan=False)
    | st.sampled_from(["MPS", "TimeSlicing", "1Gi", "Long", "x\n"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "strategy",
                    "mpsConfig",
                    "timeSlicingConfig",
                    "interval",
                    "defaultActiveThreadPercentage",
                    "defaultPinnedDeviceMemoryLimit",
                    "defaultPerDevicePinnedMemoryLimit",
                    "multiUser",
                    "0",
                    "GPU-1",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(_JSON)
def test_whatever_has_no_fault_can_be_built(block: Any) -> None:
    """What the admission lets pass, prepare can read."""
    if isinstance(block, dict) and not find_faults(GPU_SHARING, block, "sharing"):
        build_sharing(block)
    find_faults(MIG_CONFIG, block)
