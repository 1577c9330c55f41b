"""What a recording says in the words of a machine file, and what it cannot say."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from driver.cli.record import encode_machine
from driver.cli.recorded_boards import Catalogue, RecordedGpu, build_boards, build_slug
from driver.cli.recorded_links import build_wiring, lay_ports
from driver.cli.recording import Recording, build_name, build_recorded
from driver.errors import MachineInvalid
from driver.names import GpuUUID, PciAddress
from driver.nvml.mock.catalogue import decode_machine, read_boards, read_mig_tables
from driver.nvml.mock.document import NvLinkDocument
from driver.nvml.mock.faults import CallFails, GpuLost, LinkDown
from driver.nvml.readings import FabricReading, GpuFailure, GpuReading, MachineReading, NvLinkReading, PcieLevel, RemoteType
from tests.unit.topology import machines

ONE_TO_EACH = {(0, 1): 1, (0, 2): 1}
CATALOGUE = Catalogue(boards=read_boards(), mig_tables=read_mig_tables())
H100: dict[str, Any] = {
    "architecture": "Hopper",
    "cuda_compute_capability": (9, 0),
    "brand": "Nvidia",
    "memory_bytes": 81559 * 1024**2,
}


def _gpu(position: int, **facts: object) -> GpuReading:
    return machines.gpu(position, **{**H100, **facts})


def _recorded(gpu: GpuReading, device_id: int = 0x2330) -> RecordedGpu:
    return RecordedGpu(reading=gpu, device_id=device_id, mig_table=(), mig_instances=())


def _recording(reading: MachineReading) -> Recording:
    return Recording(reading=reading, gpus=tuple(_recorded(gpu) for gpu in reading.gpus), virtualization="none")


def _link(number: int, peer: int | None, kind: RemoteType = RemoteType.GPU) -> NvLinkReading:
    remote = None if peer is None else machines.pci(peer)
    return NvLinkReading(link=number, is_active=peer is not None, remote_type=kind, remote_pci=remote)


def test_a_link_that_one_end_calls_down_is_laid_and_taken_down_at_that_end() -> None:
    gpus = [
        machines.gpu(0, nvlinks=(_link(0, 1), _link(1, 2))),
        machines.gpu(1, nvlinks=(_link(0, 0), _link(1, 0))),
        machines.gpu(2, nvlinks=(_link(0, None),)),
    ]
    wiring = build_wiring(gpus, [gpu.pci for gpu in gpus], [4, 4, 4])
    assert wiring.document == NvLinkDocument(pairs={"0-1": 2, "0-2": 1})
    assert wiring.faults == (LinkDown(gpu=0, links=(0,)), LinkDown(gpu=2, peer=0))
    assert wiring.notes == ()


def test_a_port_between_others_of_its_pair_is_the_one_that_is_down() -> None:
    """Also where both ends say so, and a pair of which nothing is down keeps its numbers behind it."""
    gpus = [
        machines.gpu(0, nvlinks=(_link(0, 1), _link(1, None), _link(2, 1), _link(3, 2))),
        machines.gpu(1, nvlinks=(_link(0, 0), _link(1, None), _link(2, 0))),
        machines.gpu(2, nvlinks=(_link(0, 0),)),
    ]
    wiring = build_wiring(gpus, [gpu.pci for gpu in gpus], [4, 4, 4])
    assert wiring.document == NvLinkDocument(pairs={"0-1": 3, "0-2": 1})
    assert wiring.faults == (LinkDown(gpu=0, links=(1,)), LinkDown(gpu=1, links=(1,)))
    assert wiring.notes == ()


@pytest.mark.parametrize(
    ("ports", "laid", "counts", "kept"),
    [
        pytest.param([{0: 1}, {0: 0}], {(0, 1): 1}, [4, 4], {(0, 1): 1}, id="all up: the ports behind are nobody's"),
        pytest.param([{1: 1}, {0: 0}], {(0, 1): 1}, [4, 4], {(0, 1): 2}, id="the first is down at one end"),
        pytest.param([{0: 1, 2: 2}, {0: 0}, {0: 0}], ONE_TO_EACH, [4, 1, 2], {(0, 1): 1, (0, 2): 2}, id="of the next"),
        pytest.param([{0: 1, 2: 2}, {0: 0}, {0: 0}], ONE_TO_EACH, [4, 2, 1], {(0, 1): 2, (0, 2): 1}, id="of the one before"),
        pytest.param([{0: 2, 1: 1}, {0: 0}, {0: 0}], ONE_TO_EACH, [2, 1, 1], None, id="ports in another order"),
        pytest.param([{3: 1}, {0: 0}], {(0, 1): 1}, [4, 2], None, id="more than the peer has ports"),
    ],
)
def test_links_are_laid_so_that_ports_keep_their_numbers(
    ports: list[dict[int, int]], laid: dict[tuple[int, int], int], counts: list[int], kept: dict[tuple[int, int], int] | None
) -> None:
    assert lay_ports(ports, laid, counts) == kept


def test_that_ports_could_not_keep_their_numbers_is_said_where_one_is_down() -> None:
    gpus = [
        machines.gpu(0, nvlinks=(_link(0, 2), _link(1, None), _link(2, 1))),
        machines.gpu(1, nvlinks=(_link(0, 0),)),
        machines.gpu(2, nvlinks=(_link(0, 0), _link(1, 0))),
    ]
    wiring = build_wiring(gpus, [gpu.pci for gpu in gpus], [3, 1, 2])
    assert wiring.faults == (LinkDown(gpu=0, links=(1,)),)
    assert wiring.notes == (
        "which NVLink ports are down is not kept, only how many: in a machine file ports go in order of the peer",
    )


def test_ports_of_a_switched_gpu_that_are_down_are_named() -> None:
    gpus = [machines.gpu(0, nvlinks=machines.switch_ports(18, down=2)), machines.gpu(1, nvlinks=machines.switch_ports(18))]
    wiring = build_wiring(gpus, [gpu.pci for gpu in gpus], [18, 18])
    assert wiring.document is not None
    assert wiring.document.switches == ["0000:05:00.0", "0000:05:01.0", "0000:05:02.0", "0000:05:03.0"]
    assert wiring.faults == (LinkDown(gpu=0, links=(16, 17)),)


def test_a_gpu_whose_links_are_all_down_has_one_fault() -> None:
    gpus = [machines.gpu(0, nvlinks=machines.switch_ports(4, down=4)), machines.gpu(1, nvlinks=machines.switch_ports(4))]
    assert build_wiring(gpus, [gpu.pci for gpu in gpus], [4, 4]).faults == (LinkDown(gpu=0, links=None),)


@pytest.mark.parametrize(
    ("links", "note"),
    [
        pytest.param((_link(3, 9),), "GPU 0: NVLinks that lead to no GPU of this machine are left out: [3]", id="to nowhere"),
        pytest.param((_link(1, 1, RemoteType.CPU),), "GPU 0: NVLinks that lead to no GPU", id="to a CPU"),
        pytest.param(
            (*machines.switch_ports(2), _link(2, 1)),
            "GPU 0: NVLinks beside its switches are left out: [2]",
            id="beside switches",
        ),
    ],
)
def test_a_link_that_the_file_has_no_words_for_is_said(links: tuple[NvLinkReading, ...], note: str) -> None:
    gpus = [machines.gpu(0, nvlinks=links), machines.gpu(1)]
    assert [text for text in build_wiring(gpus, [gpu.pci for gpu in gpus], [4, 0]).notes if note in text]


def test_a_switch_without_an_address_is_outside_of_the_machine() -> None:
    port = NvLinkReading(link=0, is_active=True, remote_type=RemoteType.SWITCH, remote_pci=None)
    wiring = build_wiring([machines.gpu(0, nvlinks=(port,))], [machines.pci(0)], [1])
    assert wiring.document == NvLinkDocument(switches=["ffff:ff:1f.7"])


def test_gpus_of_one_unknown_board_share_it_and_another_gets_a_name_of_its_own() -> None:
    gpus = [_recorded(_gpu(0)), _recorded(_gpu(1)), _recorded(_gpu(2, memory_bytes=1024**3))]
    boards = build_boards(gpus, CATALOGUE)
    assert boards.names == ["nvidia-h100-80gb-hbm3", "nvidia-h100-80gb-hbm3", "nvidia-h100-80gb-hbm3-2"]
    assert boards.boards["nvidia-h100-80gb-hbm3-2"].memory_mib == 1024


def test_mig_profiles_that_nvml_did_not_tell_are_those_of_the_product() -> None:
    """Most drivers tell them only while MIG is on."""
    [board] = build_boards([_recorded(_gpu(0))], CATALOGUE).boards.values()
    assert board.mig == "h100-80gb"


def test_a_brand_without_a_word_becomes_unknown_and_is_said_once() -> None:
    boards = build_boards([_recorded(_gpu(0, brand="GeForceRTX")), _recorded(_gpu(1, brand="GeForceRTX"))], CATALOGUE)
    assert {board.brand for board in boards.boards.values()} == {"Unknown"}
    assert boards.notes == ["the brand GeForceRTX of NVIDIA H100 80GB HBM3 becomes Unknown"]


@pytest.mark.parametrize("facts", [{"architecture": "Maxwell"}, {"architecture": None}, {"cuda_compute_capability": None}])
def test_a_kind_of_gpu_without_a_word_is_refused_by_name(facts: dict[str, object]) -> None:
    with pytest.raises(MachineInvalid, match=r"GPU 0 \(NVIDIA H100 80GB HBM3\): a machine file has no word for"):
        build_boards([_recorded(_gpu(0, **facts))], CATALOGUE)


@pytest.mark.parametrize(
    ("text", "slug"),
    [("NVIDIA H100 80GB HBM3", "nvidia-h100-80gb-hbm3"), ("Ü!", "gpu"), ("a" * 80, "a" * 50), ("--x--", "x")],
)
def test_a_slug_is_a_name_that_files_take(text: str, slug: str) -> None:
    assert build_slug(text) == slug


def test_the_file_of_a_machine_reads_back() -> None:
    reading = dataclasses.replace(
        machines.hgx_8(), gpus=tuple(dataclasses.replace(gpu, **H100) for gpu in machines.hgx_8().gpus)
    )
    recorded = build_recorded(_recording(reading), CATALOGUE, name="m", with_identifiers=True)
    machine = decode_machine(encode_machine(recorded.document).encode(), source="m", seed="")
    assert [gpu.uuid for gpu in machine.gpus] == [gpu.uuid for gpu in reading.gpus]
    assert recorded.notes == ()


def test_levels_that_follow_from_the_numa_node_are_not_written_and_others_are() -> None:
    gpus = [_gpu(i, numa_node=0) for i in range(3)]
    levels = {
        (machines.pci(0), machines.pci(1)): PcieLevel.NODE,
        (machines.pci(0), machines.pci(2)): PcieLevel.SAME_BOARD,
        (machines.pci(1), machines.pci(2)): PcieLevel.SYS,
    }
    recorded = build_recorded(_recording(machines.machine(gpus, levels)), CATALOGUE, name="m", with_identifiers=False)
    assert recorded.document.levels == {"PIX": ["0-2"], "SYS": ["1-2"]}


def test_a_level_that_nvml_did_not_tell_is_said() -> None:
    recorded = build_recorded(_recording(machines.machine([_gpu(0), _gpu(1)])), CATALOGUE, name="m", with_identifiers=False)
    assert recorded.notes == ("NVML did not tell the PCIe level of 0-1; it is taken from root and NUMA node",)


def test_two_fabrics_in_one_machine_are_said() -> None:
    fabrics = [
        FabricReading(cluster_uuid=f"{digit * 8}-0000-0000-0000-000000000000", clique_id=1, is_complete=False) for digit in "12"
    ]
    reading = machines.machine([_gpu(0, fabric=fabrics[0]), _gpu(1, fabric=fabrics[1])], machines.pcie(2, []))
    recorded = build_recorded(_recording(reading), CATALOGUE, name="m", with_identifiers=True)
    assert recorded.notes == ("the GPUs say 2 different fabrics; the first is kept for all",)
    assert recorded.document.fabric is not None
    assert (recorded.document.fabric.cluster, recorded.document.fabric.state) == (fabrics[0].cluster_uuid, "in-progress")


@pytest.mark.parametrize(
    ("is_lost", "fault"),
    [(True, GpuLost(gpu=0)), (False, CallFails(call="nvmlDeviceGetUUID", code="UNKNOWN", gpu=0))],
)
def test_a_gpu_that_failed_keeps_its_number_and_fails_again(is_lost: bool, fault: object) -> None:
    failure = GpuFailure(index=0, pci=PciAddress(0, 1, 0), uuid=None, reason="failed", is_lost=is_lost)
    reading = dataclasses.replace(machines.machine([_gpu(1)]), failures=(failure,))
    recorded = build_recorded(_recording(reading), CATALOGUE, name="m", with_identifiers=True)
    assert [pci for group in recorded.document.gpus for pci in group.pci] == ["0000:01:00.0", "0000:11:00.0"]
    assert list(recorded.document.faults) == [fault]


def test_a_machine_of_which_no_gpu_answers_cannot_be_recorded() -> None:
    failure = GpuFailure(index=0, pci=PciAddress(0, 1, 0), uuid=GpuUUID("GPU-x"), reason="failed", is_lost=False)
    reading = dataclasses.replace(machines.machine([]), failures=(failure,))
    with pytest.raises(MachineInvalid, match="no GPU answers, so there is nothing to record"):
        build_recorded(_recording(reading), CATALOGUE, name="m", with_identifiers=False)


def test_a_driver_version_without_a_form_is_refused() -> None:
    reading = dataclasses.replace(machines.machine([_gpu(0)]), driver_version="550-beta")
    with pytest.raises(MachineInvalid, match="the driver's version '550-beta' has no form"):
        build_recorded(_recording(reading), CATALOGUE, name="m", with_identifiers=False)


def test_the_name_says_count_and_product() -> None:
    assert build_name(machines.hgx_8().gpus) == "recorded-8x-nvidia-h100-80gb-hbm3"
    assert build_name(()) == "recorded"


def test_a_file_has_no_aliases_and_no_defaults(tmp_path: Path) -> None:
    recorded = build_recorded(_recording(machines.machine([_gpu(0), _gpu(1)])), CATALOGUE, name="m", with_identifiers=False)
    text = encode_machine(recorded.document)
    for absent in ("&id", "*id", "null", "virtualization", "faults"):
        assert absent not in text
