"""The demo's first fit: enough of kube-scheduler's to give a claim devices, and no more."""

from __future__ import annotations

import pytest

from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import Attribute, Device, ResourcePool, ResourceSlice, ResourceSliceSpec, Taint
from driver.cli.demo.scheduler import Ask, build_allocation, build_claim, choose_ask, choose_devices, choose_word
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.build import build_devices, build_slice_contents
from driver.topology.build import build_topology
from tests.unit.topology import machines


def _slice(name: str, *devices: Device) -> ResourceSlice:
    pool = ResourcePool(name="n", generation=1, resource_slice_count=1)
    spec = ResourceSliceSpec(driver="gpu.nvidia.com", pool=pool, node_name="n", devices=devices)
    return ResourceSlice(metadata=ObjectMeta(name=name), spec=spec)


def _device(name: str, *, product: str = "NVIDIA H100", island: str = "a", taints: tuple[Taint, ...] = ()) -> Device:
    attributes = {"productName": Attribute(string=product), "nvlinkIsland": Attribute(string=island)}
    return Device(name=name, attributes=attributes, taints=taints)


def _published(reading: object) -> tuple[ResourceSlice, ...]:
    built = build_devices(build_topology(reading), node_uid="n", allocator=Allocator.SCHEDULER)  # type: ignore[arg-type]
    return tuple(
        _slice(f"{index:05x}-x", *content.devices) for index, content in enumerate(build_slice_contents(built.devices))
    )


def test_devices_are_taken_in_the_order_of_slices_and_devices() -> None:
    slices = [_slice("00001-b", _device("c")), _slice("00000-a", _device("b"), _device("a"))]
    assert choose_devices(slices, Ask(name="x", count=2, product="H100"), frozenset()) == ("b", "a")


def test_a_device_that_is_taken_or_tainted_or_another_product_is_passed_over() -> None:
    taint = Taint(key="gpu.nvidia.com/xid", effect="NoSchedule")
    slices = [_slice("s", _device("a"), _device("b", taints=(taint,)), _device("c", product="NVIDIA L40S"), _device("d"))]
    assert choose_devices(slices, Ask(name="x", count=1, product="H100"), frozenset({"a"})) == ("d",)


def test_match_attribute_wants_one_value_and_takes_the_first_set_that_suffices() -> None:
    slices = [_slice("s", _device("a", island="1"), _device("b", island="2"), _device("c", island="2"))]
    ask = Ask(name="x", count=2, product="H100", match_attribute="nvlinkIsland")
    assert choose_devices(slices, ask, frozenset()) == ("b", "c")
    assert choose_devices(slices, ask, frozenset({"c"})) is None


@pytest.mark.parametrize(
    ("reading", "count", "attribute"),
    [
        pytest.param(machines.hgx_8(), 4, "nvlinkQuad", id="a switched eight: a quad"),
        pytest.param(machines.dgx_1v(), 4, "nvlinkQuad", id="a cube mesh: a quad"),
        pytest.param(machines.meshes_of_4(1), 2, "nvlinkPair", id="four in all: a pair, so that some are left"),
        pytest.param(machines.bridged(), 2, "nvlinkPair", id="bridges: a pair"),
        pytest.param(machines.pcie_only(), 1, None, id="no links: one"),
        pytest.param(machines.machine([machines.gpu(0)]), 1, None, id="one GPU: one"),
    ],
)
def test_the_demo_asks_for_the_best_set_that_leaves_a_gpu(reading: object, count: int, attribute: str | None) -> None:
    ask = choose_ask(_published(reading))
    assert (ask.count, ask.match_attribute, ask.product) == (count, attribute, "H100")


@pytest.mark.parametrize(
    ("product", "word"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA A100-PCIE-40GB", "A100"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "4090"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA L40S", "NVIDIA"),
        ("", ""),
    ],
)
def test_a_product_is_called_by_its_model(product: str, word: str) -> None:
    assert choose_word(product) == word


def test_the_claim_is_what_a_person_would_write() -> None:
    assert build_claim(Ask(name="training", count=4, product="H100", match_attribute="nvlinkQuad")) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "training", "namespace": "default"},
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "gpus",
                        "exactly": {
                            "deviceClassName": "gpu.nvidia.com",
                            "count": 4,
                            "selectors": [
                                {"cel": {"expression": 'device.attributes["gpu.nvidia.com"].productName.matches("H100")'}}
                            ],
                        },
                    }
                ],
                "constraints": [{"requests": ["gpus"], "matchAttribute": "gpu.nvidia.com/nvlinkQuad"}],
            }
        },
    }


def test_the_allocation_names_each_device_once() -> None:
    assert build_allocation(("a", "b"), driver="d", pool="p") == {
        "devices": {
            "results": [
                {"request": "gpus", "driver": "d", "pool": "p", "device": "a"},
                {"request": "gpus", "driver": "d", "pool": "p", "device": "b"},
            ]
        }
    }
