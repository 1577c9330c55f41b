"""Configs are decoded strictly, and every fault is named with its path and what is allowed (B67)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.api.gpu_config import (
    NVIDIA_VERSION,
    OWN_VERSION,
    GpuConfig,
    MigDeviceConfig,
    TopologyPolicy,
    decode_config,
)
from driver.api.sharing import Interval, Mps, TimeSlicing
from driver.errors import ConfigInvalid

GPU = {"apiVersion": NVIDIA_VERSION, "kind": "GpuConfig"}


def decode(value: Any) -> object:
    return decode_config(value if isinstance(value, bytes) else json.dumps(value).encode(), "config[0]")


def faults(value: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigInvalid) as caught:
        decode(value)
    assert str(caught.value).startswith("config[0]: ")
    return caught.value.faults


@pytest.mark.parametrize(
    ("value", "config"),
    [
        (GPU, GpuConfig()),
        ({**GPU, "sharing": None}, GpuConfig()),
        ({"apiVersion": NVIDIA_VERSION, "kind": "MigDeviceConfig"}, MigDeviceConfig()),
        ({"apiVersion": OWN_VERSION, "kind": "TopologyPolicy", "scope": "nvlink", "mode": "required"}, TopologyPolicy()),
    ],
    ids=["whole GPU", "no sharing, said", "MIG device", "policy of the controller"],
)
def test_configs_that_are_right_are_accepted(value: object, config: object) -> None:
    assert decode(value) == config


def test_a_policy_is_not_looked_into() -> None:
    """A newer controller may know fields that this node does not."""
    assert decode({"apiVersion": OWN_VERSION, "kind": "TopologyPolicy", "fresh": {"x": [1]}}) == TopologyPolicy()


@pytest.mark.parametrize(
    ("sharing", "value"),
    [
        ({"strategy": "TimeSlicing"}, TimeSlicing(interval=Interval.DEFAULT)),
        ({"strategy": "TimeSlicing", "timeSlicingConfig": {}}, TimeSlicing(interval=Interval.DEFAULT)),
        ({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}, TimeSlicing(interval=Interval.LONG)),
        ({"strategy": "MPS"}, Mps()),
        ({"strategy": "MPS", "mpsConfig": None}, Mps()),
        (
            {
                "strategy": "MPS",
                "mpsConfig": {
                    "defaultActiveThreadPercentage": 50,
                    "defaultPinnedDeviceMemoryLimit": "10Gi",
                    "defaultPerDevicePinnedMemoryLimit": {"0": "5Gi", "GPU-1": 1048576},
                    "multiUser": True,
                },
            },
            Mps(
                thread_percentage=50,
                memory_mib=10240,
                memory_mib_by_device=(("0", 5120), ("GPU-1", 1)),
                is_multi_user=True,
            ),
        ),
        ({"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "1500M"}}, Mps(memory_mib=1430)),
    ],
    ids=["time slices", "defaults", "long", "MPS", "MPS, null", "all of MPS", "cut to MiB"],
)
def test_sharing_is_read_with_nvidias_defaults(sharing: object, value: object) -> None:
    assert decode({**GPU, "sharing": sharing}) == GpuConfig(sharing=value)  # type: ignore[arg-type]  # a value of the table


def test_a_mig_device_is_shared_in_the_same_words() -> None:
    config = {"apiVersion": NVIDIA_VERSION, "kind": "MigDeviceConfig", "sharing": {"strategy": "MPS"}}
    assert decode(config) == MigDeviceConfig(sharing=Mps())


def test_b67_every_fault_is_told_at_once() -> None:
    text = b'{"apiVersion": "%s", "kind": "GpuConfig", "Sharing": {}, "extra": 1, "extra": 2, "sharing": {}}'
    assert faults(text % NVIDIA_VERSION.encode()) == (
        "extra: stands there twice",
        "Sharing: unknown field, allowed are apiVersion, kind, sharing",
        "extra: unknown field, allowed are apiVersion, kind, sharing",
        "sharing.strategy: missing, allowed are TimeSlicing, MPS",
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(
            {},
            (
                "apiVersion: missing, allowed are gpu-dra.io/v1alpha1, resource.nvidia.com/v1beta1",
                "kind: missing, allowed are GpuConfig, MigDeviceConfig, TopologyPolicy",
            ),
            id="nothing said",
        ),
        pytest.param(
            {"kind": "GpuConfig"},
            ("apiVersion: missing, allowed are gpu-dra.io/v1alpha1, resource.nvidia.com/v1beta1",),
            id="no apiVersion",
        ),
        pytest.param({"apiVersion": NVIDIA_VERSION}, ("kind: missing, allowed are GpuConfig, MigDeviceConfig",), id="no kind"),
        pytest.param(
            {**GPU, "kind": "gpuconfig"}, ('kind: "gpuconfig" is not one of GpuConfig, MigDeviceConfig',), id="case of kind"
        ),
        pytest.param(
            {**GPU, "apiVersion": "resource.nvidia.com/v1"},
            ('apiVersion: "resource.nvidia.com/v1" is not one of gpu-dra.io/v1alpha1, resource.nvidia.com/v1beta1',),
            id="another version",
        ),
        pytest.param({**GPU, "kind": 7}, ("kind: 7 is not one of GpuConfig, MigDeviceConfig",), id="kind is a number"),
        pytest.param(
            {**GPU, "kind": "TopologyPolicy"},
            ('kind: "TopologyPolicy" is not one of GpuConfig, MigDeviceConfig',),
            id="kind of the other group",
        ),
        pytest.param(
            {**GPU, "kind": "VfioDeviceConfig"},
            ('kind: "VfioDeviceConfig" is not one of GpuConfig, MigDeviceConfig',),
            id="a kind of NVIDIA's that is not built",
        ),
        pytest.param(b"[]", ("parameters: must be an object, not a list",), id="no object"),
        pytest.param(b"{", None, id="no JSON"),
    ],
)
def test_b67_malformed_configs_are_refused_with_path_and_allowed_values(value: Any, expected: tuple[str, ...] | None) -> None:
    said = faults(value)
    assert said == expected or (expected is None and said[0].startswith("parameters: not JSON"))


@given(
    st.binary(max_size=300)
    | st.dictionaries(st.text(max_size=8), st.none() | st.text(max_size=8), max_size=5).map(
        lambda extra: json.dumps({**GPU, **extra}).encode()
    )
)
@settings(max_examples=150, deadline=None)
def test_any_parameters_end_in_a_config_or_in_named_faults(parameters: bytes) -> None:
    try:
        config, said = decode_config(parameters, "config[0]"), ["none: needed"]
    except ConfigInvalid as err:
        config, said = GpuConfig(), list(err.faults)
    assert config == GpuConfig()
    assert said
    assert all(": " in fault for fault in said)
