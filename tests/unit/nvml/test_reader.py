"""``read_machine``: what one pass makes of good, bad and missing answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from driver.errors import NvmlError
from driver.names import GpuUUID
from driver.nvml.facts import OPTIONAL, REQUIRED, clean_text
from driver.nvml.library import Code, Device, FabricInfo, NvmlLibrary, PciInfo, build_error
from driver.nvml.mock import open_mock, read_machine_names, write_faults
from driver.nvml.mock.faults import CallFails, Fault, GpuLost, NotReady
from driver.nvml.reader import read_machine
from driver.nvml.readings import (
    FabricReading,
    GpuFailure,
    GpuReading,
    MachineReading,
    NvLinkReading,
    PciAddress,
    PcieLevel,
    RemoteType,
)


class Sysfs:
    """PCI facts that say something of every address."""

    def numa_node(self, pci: PciAddress) -> int | None:
        return pci.bus

    def pcie_root(self, pci: PciAddress) -> str | None:
        return f"pci0000:{pci.bus:02x}"


class Changed:
    """A library, but for the methods that are given in its place."""

    def __init__(self, library: NvmlLibrary, **methods: Callable[..., Any]) -> None:
        self._library = library
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        return self._methods.get(name, getattr(self._library, name))


def open_library(name: str, state_dir: Path, *faults: Fault) -> NvmlLibrary:
    library = open_mock(name, state_dir).library
    library.init()
    if faults:
        write_faults(state_dir, faults)
    return library


def read_changed(name: str, state_dir: Path, **methods: Callable[..., Any]) -> MachineReading:
    library: Any = Changed(open_library(name, state_dir), **methods)
    return read_machine(library, Sysfs())


def refuse(code: Code) -> Callable[..., Any]:
    def call(*_: object) -> object:
        raise build_error("nvmlTest", code)

    return call


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
        is_mig_enabled=False,
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
    absent = False if fact == "is_mig_enabled" else None
    for gpu, before in zip(reading.gpus, good.gpus, strict=True):
        for field in fields(GpuReading):
            assert getattr(gpu, field.name) == (absent if field.name == fact else getattr(before, field.name)), field.name


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


@pytest.mark.parametrize(
    ("method", "answer", "reason"),
    [
        ("device_uuid", "GPU-00000000-0000-0000-0000-000000000000", "no GPU-<uuid>"),
        ("device_uuid", "GPU-ABCDEF00-0000-0000-0000-000000000000", "no GPU-<uuid>"),
        ("device_uuid", "abcdef00-0000-0000-0000-000000000000", "no GPU-<uuid>"),
        ("device_uuid", "GPU-abcdef00-0000-0000-0000-00000000000/", "no GPU-<uuid>"),
        ("device_uuid", "GPU-{abcdef00-0000-0000-0000-000000000000}", "no GPU-<uuid>"),
        ("device_uuid", "../../etc/passwd\n", "no GPU-<uuid>"),
        ("device_uuid", "", "no GPU-<uuid>"),
        ("device_name", "", "product name is empty"),
        ("device_name", "\0rest", "product name is empty"),
        ("device_pci_info", PciInfo(bus_id="nowhere", device_id=0x233010DE), "bus id is unusable"),
        ("device_pci_info", PciInfo(bus_id="", device_id=0x233010DE), "bus id is unusable"),
    ],
)
def test_an_answer_that_makes_no_sense_costs_its_gpu(tmp_path: Path, method: str, answer: object, reason: str) -> None:
    """B35."""
    reading = read_changed("gb10", tmp_path, **{method: lambda _: answer})
    assert reading.gpus == ()
    assert reason in reading.failures[0].reason
    assert reading.failures[0].reason.isprintable()


@pytest.mark.parametrize(
    ("method", "answer", "same"),
    [
        ("device_uuid", "GPU-abcdef00-0000-0000-0000-000000000001", "uuid"),
        ("device_pci_info", PciInfo(bus_id="00000000:17:00.0", device_id=0x233010DE), "pci"),
        ("device_minor_number", 0, "minor"),
    ],
)
def test_gpus_that_cannot_be_told_apart_are_failures_both(tmp_path: Path, method: str, answer: object, same: str) -> None:
    reading = read_changed("long-name", tmp_path, **{method: lambda _: answer})
    assert reading.gpus == ()
    assert [failure.reason for failure in reading.failures] == [f"another GPU has the same {same}"] * 2


def test_another_vendors_device_is_left_out_without_a_failure(tmp_path: Path) -> None:
    reading = read_changed("t4", tmp_path, device_pci_info=lambda _: PciInfo(bus_id="00000000:17:00.0", device_id=0x73BF1002))
    assert (reading.gpus, reading.failures) == ((), ())


def test_numbers_that_are_newer_than_this_program_are_absent_facts(tmp_path: Path) -> None:
    reading = read_changed(
        "hgx-h100-4",
        tmp_path,
        device_brand=lambda _: 99,
        device_architecture=lambda _: 99,
        device_addressing_mode=lambda _: 99,
        device_nvlink_remote_device_type=lambda *_: 99,
        device_topology_common_ancestor=lambda *_: 99,
    )
    gpu = reading.gpus[0]
    assert (gpu.brand, gpu.architecture, gpu.addressing_mode) == (None, None, None)
    assert {link.remote_type for link in gpu.nvlinks} == {RemoteType.UNKNOWN}
    assert reading.pcie_levels == {}


@pytest.mark.parametrize(
    ("state", "status", "fabric"),
    [
        pytest.param(
            3, 0, FabricReading(cluster_uuid="00" * 4 + "-0000" * 3 + "-" + "0" * 12, clique_id=7, is_complete=True), id="zero"
        ),
        pytest.param(
            3,
            999,
            FabricReading(cluster_uuid="00" * 4 + "-0000" * 3 + "-" + "0" * 12, clique_id=7, is_complete=False),
            id="failed",
        ),
        pytest.param(
            2,
            0,
            FabricReading(cluster_uuid="00" * 4 + "-0000" * 3 + "-" + "0" * 12, clique_id=7, is_complete=False),
            id="going on",
        ),
        pytest.param(0, 0, None, id="not supported"),
    ],
)
def test_a_fabric_is_complete_when_state_and_status_say_so(
    tmp_path: Path, state: int, status: int, fabric: FabricReading | None
) -> None:
    info = FabricInfo(cluster_uuid=bytes(16), clique_id=7, state=state, status=status)
    assert read_changed("gb10", tmp_path, device_gpu_fabric_info=lambda _: info).gpus[0].fabric == fabric


def test_a_port_that_fails_is_absent_and_the_others_are_read(tmp_path: Path) -> None:
    library = open_library("hgx-h100-4", tmp_path)

    def state(device: Device, link: int) -> bool:
        if link == 3:
            raise build_error("nvmlDeviceGetNvLinkState", Code.UNKNOWN)
        return library.device_nvlink_state(device, link)

    reading = read_changed("hgx-h100-4", tmp_path, device_nvlink_state=state)
    assert [link.link for link in reading.gpus[0].nvlinks] == [number for number in range(18) if number != 3]


def test_an_inactive_link_has_no_remote_end(tmp_path: Path) -> None:
    links = read_machine(open_library("hgx-b200-gpu2-unlinked", tmp_path), Sysfs()).gpus[2].nvlinks
    assert links == tuple(
        NvLinkReading(link=link, is_active=False, remote_type=RemoteType.UNKNOWN, remote_pci=None) for link in range(18)
    )


def test_a_remote_end_that_is_no_address_is_unknown(tmp_path: Path) -> None:
    reading = read_changed(
        "hgx-h100-4", tmp_path, device_nvlink_remote_pci_info=lambda *_: PciInfo(bus_id="?", device_id=0x10DE)
    )
    assert {link.remote_pci for link in reading.gpus[0].nvlinks} == {None}


def test_a_pair_that_nvml_does_not_answer_is_unknown(tmp_path: Path) -> None:
    def level(*_: object) -> int:
        raise build_error("nvmlDeviceGetTopologyCommonAncestor", Code.NOT_SUPPORTED)

    reading = read_changed("hgx-h100-4", tmp_path, device_topology_common_ancestor=level)
    assert len(reading.gpus) == 4
    assert reading.pcie_levels == {}


def test_failed_gpus_have_no_levels(tmp_path: Path) -> None:
    reading = read_machine(open_library("hgx-h100-4", tmp_path, GpuLost(gpu=1)), Sysfs())
    assert len(reading.pcie_levels) == 3
    assert set(reading.pcie_levels.values()) == {PcieLevel.SYS}


def test_more_gpus_than_a_machine_can_have_are_not_asked(tmp_path: Path) -> None:
    reading = read_changed("gb10", tmp_path, device_count=lambda: 2**31, device_handle_by_index=refuse(Code.UNKNOWN))
    assert len(reading.failures) == 256


@pytest.mark.parametrize(("number", "version"), [(13000, (13, 0)), (12040, (12, 4)), (0, None), (-1, None)])
def test_cudas_version_is_a_major_and_a_minor(tmp_path: Path, number: int, version: tuple[int, int] | None) -> None:
    assert read_changed("gb10", tmp_path, system_cuda_driver_version=lambda: number).cuda_driver_version == version


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("NVIDIA H100", "NVIDIA H100"),
        (" Tesla T4 \0garbage", "Tesla T4"),
        ("a\nb\x1b[31m", "a\ufffdb\ufffd[31m"),
        ("x" * 1000, "x" * 256),
        ("", ""),
    ],
)
def test_texts_are_cleaned(text: str, clean: str) -> None:
    assert clean_text(text) == clean


def test_the_tables_name_methods_and_fields_that_exist() -> None:
    with_default = {field.name for field in fields(GpuReading) if field.default is not MISSING}
    without = {field.name for field in fields(GpuReading) if field.default is MISSING}
    assert set(OPTIONAL) == with_default - {"nvlinks", "numa_node", "pcie_root"}
    assert set(REQUIRED) == without - {"index", "pci"}
    for fact in (*REQUIRED.values(), *OPTIONAL.values()):
        assert callable(getattr(NvmlLibrary, fact.method))


def test_a_failure_is_a_value(tmp_path: Path) -> None:
    reading = read_machine(open_library("dgx-h100-gpu7-failing", tmp_path), Sysfs())
    assert reading.failures == (
        GpuFailure(
            index=7,
            pci=PciAddress.parse("0000:df:00.0"),
            uuid=GpuUUID("GPU-b61f8827-b0ba-5c13-8fc7-4c3fd336d0fc"),
            reason="NVML nvmlDeviceGetName: UNKNOWN (999)",
            is_lost=False,
        ),
    )
