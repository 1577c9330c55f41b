"""Configs of this driver, right and wrong, for admission and prepare alike."""

from __future__ import annotations

from collections.abc import Mapping

from tests.e2e.kube import Json

NVIDIA = "resource.nvidia.com/v1beta1"
GPU: Json = {"apiVersion": NVIDIA, "kind": "GpuConfig"}
MIG: Json = {"apiVersion": NVIDIA, "kind": "MigDeviceConfig"}
POLICY: Json = {"apiVersion": "gpu-dra.io/v1alpha1", "kind": "TopologyPolicy", "scope": "nvlink"}


def sharing(block: object, kind: Json = GPU) -> Json:
    """A config with this sharing block."""
    return {**kind, "sharing": block}


def mps(**config: object) -> Json:
    """A config for MPS."""
    return sharing({"strategy": "MPS", "mpsConfig": config})


def time_slicing(interval: object) -> Json:
    """A config for time slices."""
    return sharing({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": interval}})


RIGHT: Mapping[str, Json] = {
    "nothing": GPU,
    "null": sharing(None),
    "time slices": sharing({"strategy": "TimeSlicing"}),
    "short": time_slicing("Short"),
    "medium": time_slicing("Medium"),
    "long": time_slicing("Long"),
    "default": time_slicing("Default"),
    "MPS": sharing({"strategy": "MPS"}),
    "MPS with all": mps(
        defaultActiveThreadPercentage=50,
        defaultPinnedDeviceMemoryLimit="10Gi",
        defaultPerDevicePinnedMemoryLimit={"0": "5Gi", "GPU-5f1a4a54-0000-4000-8000-000000000001": "6000M"},
        multiUser=True,
    ),
    "bytes": mps(defaultPinnedDeviceMemoryLimit=1 << 30),
    "MIG device": MIG,
    "MIG device with MPS": sharing({"strategy": "MPS"}, MIG),
    "the controller's": POLICY,
}

WRONG: Mapping[str, Json] = {
    "empty": {},
    "no kind": {"apiVersion": NVIDIA},
    "no apiVersion": {"kind": "GpuConfig"},
    "another version": {**GPU, "apiVersion": "resource.nvidia.com/v1"},
    "case of the kind": {**GPU, "kind": "gpuconfig"},
    "kind is a number": {**GPU, "kind": 7},
    "VFIO": {**GPU, "kind": "VfioDeviceConfig"},
    "kind of the other group": {**GPU, "kind": "TopologyPolicy"},
    "unknown field": {**GPU, "sharring": {}},
    "odd field": {**GPU, "a\tb": 1},
    "sharing is a number": sharing(5),
    "sharing is a list": sharing([]),
    "sharing is empty": sharing({}),
    "no strategy": sharing({"mpsConfig": {}}),
    "case of the strategy": sharing({"strategy": "mps"}),
    "strategy is true": sharing({"strategy": True}),
    "unplain strategy": sharing({"strategy": "M\nPS"}),
    "long strategy": sharing({"strategy": "M" * 64}),
    "field of sharing": sharing({"strategy": "MPS", "mpsconfig": {}}),
    "MPS with time slices": sharing({"strategy": "MPS", "timeSlicingConfig": {"interval": "Long"}}),
    "time slices with MPS": sharing({"strategy": "TimeSlicing", "mpsConfig": {"multiUser": True}}),
    "case of the interval": time_slicing("long"),
    "interval is a number": time_slicing(3),
    "field of the interval": sharing({"strategy": "TimeSlicing", "timeSlicingConfig": {"Interval": "Long"}}),
    "interval of a MIG device": sharing({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}, MIG),
    "0 percent": mps(defaultActiveThreadPercentage=0),
    "101 percent": mps(defaultActiveThreadPercentage=101),
    "half a percent": mps(defaultActiveThreadPercentage=0.5),
    "percent as text": mps(defaultActiveThreadPercentage="50"),
    "percent is true": mps(defaultActiveThreadPercentage=True),
    "percent is large": mps(defaultActiveThreadPercentage=1 << 70),
    "memory of 0": mps(defaultPinnedDeviceMemoryLimit="0"),
    "memory below 1Mi": mps(defaultPinnedDeviceMemoryLimit="1023Ki"),
    "memory of 2Pi": mps(defaultPinnedDeviceMemoryLimit="2Pi"),
    "memory in GB": mps(defaultPinnedDeviceMemoryLimit="10GB"),
    "memory is negative": mps(defaultPinnedDeviceMemoryLimit="-1Gi"),
    "memory is an object": mps(defaultPinnedDeviceMemoryLimit={"gi": 1}),
    "memory is a fraction": mps(defaultPinnedDeviceMemoryLimit=2097152.5),
    "limits are a list": mps(defaultPerDevicePinnedMemoryLimit=["1Gi"]),
    "limits of no device": mps(defaultPerDevicePinnedMemoryLimit={"gpu-0": "1Gi", "-1": "1Gi", "100": "1Gi", "GPU-": "1Gi"}),
    "limits of nothing": mps(defaultPerDevicePinnedMemoryLimit={"0": None, "1": "", "GPU-1": "x"}),
    "multi-user as text": mps(multiUser="yes"),
    "everything": {
        **GPU,
        "Sharing": {},
        "sharing": {"strategy": "MPS", "a": 1, "mpsConfig": {"b": 1, "defaultActiveThreadPercentage": -1, "multiUser": 1}},
    },
}
