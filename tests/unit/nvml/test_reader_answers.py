"""``read_machine`` and answers that make no sense, are newer than this program, or are missing in part."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from driver.names import GpuUUID, PciAddress
from driver.nvml.facts import OPTIONAL, REQUIRED, clean_text
from driver.nvml.library import Code, Device, FabricInfo, NvmlLibrary, PciInfo, build_error
from driver.nvml.mock.faults import GpuLost
from driver.nvml.reader import read_machine
from driver.nvml.readings import FabricReading, GpuFailure, GpuReading, NvLinkReading, PcieLevel, RemoteType
from tests.unit.nvml.changed import Sysfs, open_library, read_changed, refuse


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
    assert set(OPTIONAL) == with_default - {"mig", "nvlinks", "numa_node", "pcie_root"}
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
