"""The harness reads what a container says, and knows a whole pool from a half-written one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e import manifests, objects
from tests.e2e.objects import ContainerView

LOG = """GPU_DRA_DEVICE_0000_1b_00_0=GPU-b
GPU_DRA_DEVICE_0000_43_00_0=GPU-a
NODE /dev/nvidia0
NODE /dev/nvidia1
NODE /dev/nvidiactl
NODE /dev/nvidia-uvm
SMI GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-b)
SMI GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-a)
END
"""


def pool(*generations: int, count: int) -> list[dict[str, Any]]:
    return [{"spec": {"pool": {"generation": each, "resourceSliceCount": count}}} for each in generations]


def test_view_has_devices_without_control_nodes() -> None:
    assert objects.parse_view(LOG) == ContainerView(
        uuids=("GPU-a", "GPU-b"), gpu_nodes=("/dev/nvidia0", "/dev/nvidia1"), smi_uuids=("GPU-a", "GPU-b")
    )


def test_view_of_a_container_without_gpus_is_empty() -> None:
    assert objects.parse_view("NODE /dev/nvidia*\nSMI sh: nvidia-smi: not found\nEND\n") == ContainerView(
        uuids=(), gpu_nodes=(), smi_uuids=()
    )


@pytest.mark.parametrize(
    ("slices", "is_complete"),
    [
        ([], False),
        (pool(1, count=1), True),
        (pool(2, 2, count=2), True),
        (pool(2, count=2), False),
        (pool(1, 2, count=1), False),
    ],
    ids=["no slice", "one", "two of one generation", "one is missing", "an old one is left"],
)
def test_pool_is_complete_when_all_slices_of_one_generation_are_there(slices: list[dict[str, Any]], is_complete: bool) -> None:
    assert objects.is_pool_complete(slices) is is_complete


def test_fitted_example_differs_only_in_what_the_cluster_needs() -> None:
    """Requests, claims and constraints are the user's own: they are what the scenario is about."""
    for path in manifests.EXAMPLES.glob("*.yaml"):
        for document in manifests.read_documents(path):
            fitted = manifests.fit_example(document, "e2e")
            if document["kind"] == "Pod":
                assert fitted["spec"].get("resourceClaims") == document["spec"].get("resourceClaims")
                pairs = zip(fitted["spec"]["containers"], document["spec"]["containers"], strict=True)
                assert all(new["resources"] == old["resources"] for new, old in pairs)
            else:
                assert fitted.get("spec") == document.get("spec")
            assert "e2e" in (fitted["metadata"].get("namespace"), fitted["metadata"]["name"])
