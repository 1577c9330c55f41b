"""``read_machine``: what one pass makes of a machine, and of calls that fail."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from driver.errors import NvmlError
from driver.names import PciAddress
from driver.nvml.facts import OPTIONAL, REQUIRED
from driver.nvml.library import Code
from driver.nvml.mock import read_machine_names
from driver.nvml.mock.faults import CallFails, GpuLost, NotReady
from driver.nvml.reader import read_machine
from driver.nvml.readings import FabricReading, GpuReading, NvLinkReading, RemoteType
from tests.unit.nvml.changed import Sysfs, open_library, read_changed, refuse


def test_a_reading_holds_every_fact(tmp_path: Path) -> None:
    library = open_library("gb200-tray", tmp_path)
    gpu = read_machine(library, Sysfs()).gpus[0]
    switch = PciAddress.parse("ffff:ff:1f.7")
    assert gpu == GpuReading(
        index=0,
        uuid=gpu.uuid,
        pci=PciAddress.parse("0008:01:00.0"),
        minor=0,
        product_name="NVIDIA GB200",
        brand="Nvidia",
        architecture="Blackwell",
        cuda_compute_capability=(10, 0),
        memory_bytes=189471 * 1024 * 1024,
        addressing_mode="ATS",
        module_id=1,
        virtualization_mode=0,
        mig=gpu.mig,
        nvlinks=tuple(
            NvLinkReading(link=link, is_active=True, remote_type=RemoteType.SWITCH, remote_pci=switch) for link in range(18)
        ),
        fabric=FabricReading(cluster_uuid="9c6f5af3-53bf-49b5-a436-b66766c413c3", clique_id=4026, is_complete=True),
        numa_node=1,
        pcie_root="pci0000:01",
    )


def test_a_machine_is_read_the_same_twice(tmp_path: Path) -> None:
    for name in read_machine_names():
        first = read_machine(open_library(name, tmp_path / f"{name}-a"), Sysfs())
        assert read_machine(open_library(name, tmp_path / f"{name}-b"), Sysfs()) == first


def test_gpus_are_in_order_of_address_whatever_nvmls_order(tmp_path: Path) -> None:
    reading = read_machine(open_library("l40s", tmp_path), Sysfs())
    assert [f"{gpu.pci.bus:02x}" for gpu in reading.gpus] == ["17", "18", "31", "32", "b1", "b2", "ca", "cb"]
    assert [gpu.index for gpu in reading.gpus] == [0, 2, 1, 3, 4, 6, 5, 7]
    assert all(low < high for low, high in reading.pcie_levels)


def test_unified_memory_is_an_absent_fact(tmp_path: Path) -> None:
    """B32."""
    reading = read_machine(open_library("gb10", tmp_path), Sysfs())
    assert reading.failures == ()
    gpu = reading.gpus[0]
    assert (gpu.memory_bytes, gpu.is_mig_enabled, gpu.nvlinks, gpu.fabric) == (None, False, (), None)
    assert str(gpu.pci) == "000f:01:00.0"


@pytest.mark.parametrize("code", ["NOT_SUPPORTED", "FUNCTION_NOT_FOUND", "UNKNOWN", "NO_PERMISSION"])
@pytest.mark.parametrize("fact", sorted(OPTIONAL))
def test_an_optional_call_that_fails_costs_its_fact_alone(tmp_path: Path, fact: str, code: str) -> None:
    """B23."""
    good = read_machine(open_library("hgx-h100-4", tmp_path / "good"), Sysfs())
    reading = read_changed("hgx-h100-4", tmp_path / "bad", **{OPTIONAL[fact].method: refuse(Code[code])})
    assert reading.failures == ()
    for gpu, before in zip(reading.gpus, good.gpus, strict=True):
        for field in fields(GpuReading):
            assert getattr(gpu, field.name) == (None if field.name == fact else getattr(before, field.name)), field.name


@pytest.mark.parametrize("fact", sorted(REQUIRED))
def test_a_required_call_that_fails_costs_its_gpu_alone(tmp_path: Path, fact: str) -> None:
    calls = {"uuid": "nvmlDeviceGetUUID", "minor": "nvmlDeviceGetMinorNumber", "product_name": "nvmlDeviceGetName"}
    library = open_library("dgx-h100", tmp_path, CallFails(call=calls[fact], code="UNKNOWN", gpu=3))
    reading = read_machine(library, Sysfs())
    assert [gpu.index for gpu in reading.gpus] == [0, 1, 2, 4, 5, 6, 7]
    failure = reading.failures[0]
    assert reading.failures == (failure,)
    assert (failure.index, str(failure.pci), failure.is_lost) == (3, "0000:61:00.0", False)
    assert failure.reason == f"NVML {calls[fact]}: UNKNOWN (999)"
    assert (failure.uuid is None) == (fact == "uuid")


@pytest.mark.parametrize("call", ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetPciInfo"])
def test_a_gpu_without_an_address_is_a_failure_too(tmp_path: Path, call: str) -> None:
    library = open_library("dgx-h100", tmp_path, CallFails(call=call, code="UNKNOWN", gpu=3))
    reading = read_machine(library, Sysfs())
    assert len(reading.gpus) == 7
    assert [(failure.index, failure.pci, failure.is_lost) for failure in reading.failures] == [(3, None, False)]


def test_a_lost_gpu_is_a_failure_that_says_so(tmp_path: Path) -> None:
    reading = read_machine(open_library("dgx-h100", tmp_path, GpuLost(gpu=0)), Sysfs())
    assert len(reading.gpus) == 7
    assert [(failure.index, failure.is_lost) for failure in reading.failures] == [(0, True)]


@pytest.mark.parametrize("method", ["device_memory_total_bytes", "device_nvlink_state", "device_nvlink_remote_pci_info"])
def test_a_gpu_lost_halfway_is_no_gpu_with_absent_facts(tmp_path: Path, method: str) -> None:
    reading = read_changed("hgx-h100-4", tmp_path, **{method: refuse(Code.GPU_IS_LOST)})
    assert reading.gpus == ()
    assert [failure.is_lost for failure in reading.failures] == [True] * 4
    assert all(failure.uuid is not None and failure.pci is not None for failure in reading.failures)


@pytest.mark.parametrize("code", [Code.UNINITIALIZED, Code.DRIVER_NOT_LOADED, Code.LIB_RM_VERSION_MISMATCH])
@pytest.mark.parametrize(
    "method",
    [
        "system_driver_version",
        "system_cuda_driver_version",
        "device_count",
        "device_handle_by_index",
        "device_uuid",
        "device_brand",
        "device_nvlink_state",
        "device_nvlink_remote_device_type",
        "device_topology_common_ancestor",
    ],
)
def test_a_library_that_is_down_is_no_machine_without_gpus(tmp_path: Path, method: str, code: Code) -> None:
    """B31: half a reading must not replace a whole one."""
    with pytest.raises(NvmlError) as caught:
        read_changed("hgx-h100-4", tmp_path, **{method: refuse(code)})
    assert caught.value.code == code


def test_a_driver_that_is_not_loaded_is_the_librarys_failure(tmp_path: Path) -> None:
    library = open_library("t4", tmp_path, NotReady())
    with pytest.raises(NvmlError, match="DRIVER_NOT_LOADED"):
        read_machine(library, Sysfs())
