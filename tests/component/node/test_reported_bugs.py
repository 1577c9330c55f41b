"""What users reported of other drivers and device plugins, tried on a whole node: the input of each, and the right answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import driver.nvml.mock
from driver.claims.record import State, decode_record, encode_record
from driver.node.machine import MachineReader
from driver.nvml.mock.faults import CallFails, GpuLost, NeedsRecovery, NotReady, XidEvent
from driver.nvml.readings import MachineReading
from driver.topology.mig_offer import MigSetting
from tests.component.node.mig_node import GPU, MigNode, make, opened, read
from tests.component.node.one_node import OneNode, one_node

Taints = dict[str, list[tuple[str, str]]]


@pytest.fixture
def node() -> Iterator[OneNode]:
    """A node without a plugin yet."""
    with one_node() as node:
        yield node


def read_taints(node: OneNode) -> Taints:
    """Key and value of the taints of each device that has any."""
    return {
        name: [(each["key"], each.get("value", "")) for each in device["taints"]]
        for name, device in node.devices().items()
        if device.get("taints")
    }


def write_machine(folder: Path, boards: Sequence[str]) -> str:
    """A machine with one GPU of each board."""
    path = folder / "machine.yaml"
    gpus = [{"board": board, "numa": 0, "root": f"pci0000:{n}0", "pci": [f"{n}1:00.0"]} for n, board in enumerate(boards, 1)]
    path.write_text(json.dumps({"name": "mixed", "driver": "580.159.04", "cuda": "13.0", "gpus": gpus}))
    return str(path)


def read_instance_numbers(mig: MigNode) -> dict[int, int]:
    """The driver's number of the GPU instance at each start of the first GPU."""
    gpu = read(mig.machine, mig.node.mock_state).gpus[0]
    assert gpu.mig is not None
    return {each.placement.start: each.id for each in gpu.mig.instances}


def test_gpus_whose_fabric_is_not_up_are_marked_before_a_program_fails_on_them(node: OneNode, tmp_path: Path) -> None:
    """CUDA says "system not yet initialized" (802), and nothing else tells why.

    https://github.com/NVIDIA/gpu-operator/issues/1043
    """
    path = tmp_path / "machine.yaml"
    text = Path(driver.nvml.mock.__file__).with_name("machines").joinpath("hgx-h100-4.yaml").read_text()
    assert "clique: 0" in text
    path.write_text(text.replace("clique: 0", "clique: 0, state: in-progress"))
    node.start(str(path))
    node.wait(lambda: len(read_taints(node)) == 4)
    assert set(map(tuple, read_taints(node).values())) == {(("gpu.nvidia.com/fabric", "in-progress"),)}
    node.wait(lambda: any("nvidia-fabricmanager" in said for said in node.events("GpuWarning")))


class Plugged:
    """A reader that sees the last GPU once it is plugged in."""

    def __init__(self, reader: MachineReader) -> None:
        self._reader = reader
        self.is_whole = False

    def read(self) -> MachineReading:
        reading = self._reader.read()
        return reading if self.is_whole else replace(reading, gpus=reading.gpus[:-1])


def test_a_gpu_that_is_plugged_into_a_running_node_is_published_within_seconds(node: OneNode) -> None:
    """The driver's files say so, without NVML (https://github.com/NVIDIA/gpu-operator/issues/1263)."""
    plugged: list[Plugged] = []

    def wrap(reader: MachineReader) -> MachineReader:
        plugged.append(Plugged(reader))
        return plugged[0]

    node.start("dgx-h100", wrap=wrap)
    node.wait_published(7)
    plugged[0].is_whole = True
    (node.mock_state / "root/proc/driver/nvidia/gpus/0000:ff:00.0").mkdir()
    node.wait_published(8)


@pytest.mark.parametrize("mig", [MigSetting.AUTO, MigSetting.DYNAMIC], ids=lambda each: str(each.value))
@pytest.mark.parametrize("machine", ["t4", "l40s"])
def test_gpus_without_mig_are_published_whole_where_mig_is_asked_for(node: OneNode, machine: str, mig: MigSetting) -> None:
    """No counter set without counters: the server refuses the slice for it, and so every device of the node.

    https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1092
    """
    node.start(machine, mig=mig)
    node.wait(lambda: len(node.devices()) > 1)
    slices = node.api.objects("resourceslices")
    assert [each["spec"].get("sharedCounters", []) for each in slices] == [[]] * len(slices)
    assert {each["attributes"]["type"]["string"] for each in node.devices().values()} == {"gpu"}


def test_a_node_of_several_kinds_of_gpus_divides_those_that_can_be(node: OneNode, tmp_path: Path) -> None:
    """One that can do no MIG keeps no other from it (https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1092)."""
    node.start(write_machine(tmp_path, ["l4", "h100-sxm5-80gb", "a100-sxm4-40gb"]), mig=MigSetting.AUTO)
    node.wait(lambda: len(node.devices()) > 3)
    whole = {name: device for name, device in node.devices().items() if device["attributes"]["type"]["string"] == "gpu"}
    assert sorted(whole) == ["gpu-0000-11-00-0", "gpu-0000-21-00-0", "gpu-0000-31-00-0"]
    assert [name for name, device in whole.items() if device.get("consumesCounters")] == ["gpu-0000-21-00-0"]
    claim = node.allocate("all", sorted(whole))
    assert len(node.prepare(claim)[claim.uid]) == 3


def test_gpus_without_device_nodes_are_named_and_end_nothing(node: OneNode) -> None:
    """On WSL NVML knows no minor numbers: there is nothing to give out, and the plugin stays up and says why.

    https://github.com/NVIDIA/k8s-device-plugin/issues/332,
    https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1201
    """
    node.play(CallFails(call="nvmlDeviceGetMinorNumber", code="NOT_SUPPORTED"))
    node.start("rtx4090")
    node.wait(lambda: bool(node.api.objects("resourceslices")) and bool(node.events("GpuFailed")))
    assert node.devices() == {}
    assert "nvmlDeviceGetMinorNumber" in node.events("GpuFailed")[0]


def test_a_plugin_that_starts_before_the_driver_still_ends_claims(node: OneNode) -> None:
    """Else pods stay in Terminating, the drain never ends, and the driver that waits for it is never installed.

    https://github.com/NVIDIA/k8s-driver-manager/pull/217
    """
    plugin = node.start("dgx-h100")
    node.wait_published(8)
    claim = node.allocate("held", sorted(node.devices())[:2])
    node.prepare(claim)
    node.stop(plugin)
    node.play(NotReady())
    node.start("dgx-h100")
    node.kubelet.wait_registered("gpu.nvidia.com")
    node.unprepare(claim)
    assert node.cdi_files() == []


def test_a_claim_of_a_gpu_that_is_gone_keeps_no_restarted_plugin_from_the_others(node: OneNode) -> None:
    """One claim's loss is no other's (https://github.com/ROCm/k8s-gpu-dra-driver/pull/78)."""
    plugin = node.start("dgx-h100")
    node.wait_published(8)
    names = sorted(node.devices())
    lost, fine = node.allocate("lost", [names[2]]), node.allocate("fine", [names[3]])
    node.prepare(lost)
    node.stop(plugin)
    node.play(GpuLost(gpu=2))
    node.start("dgx-h100")
    node.kubelet.wait_registered("gpu.nvidia.com")
    assert len(node.prepare(fine)[fine.uid]) == 1
    node.unprepare(lost)
    assert len(node.cdi_files()) == 1


def test_each_mig_device_that_fails_is_tainted_and_its_neighbour_is_not(node: OneNode) -> None:
    """Two sick instances of one GPU are two; a program's own XID on the third is none; a restart forgets nothing.

    https://github.com/NVIDIA/k8s-device-plugin/issues/1929,
    https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/1253
    """
    mig = MigNode(node)
    mig.start()
    starts = (0, 2, 4)
    names = [f"{GPU}-mig-2g-20gb-p14-{start}" for start in starts]
    for number, name in enumerate(names):
        node.prepare(node.allocate(f"part-{number}", [name]))
    numbers = read_instance_numbers(mig)
    mig.node.play(
        XidEvent(gpu=0, xid=94, gpu_instance=numbers[0], compute_instance=0),
        XidEvent(gpu=0, xid=48, gpu_instance=numbers[2], compute_instance=0),
        XidEvent(gpu=0, xid=48, gpu_instance=numbers[4], compute_instance=0),
        XidEvent(gpu=0, xid=31, gpu_instance=numbers[0], compute_instance=0, id="own"),
    )
    node.wait(lambda: {names[1], names[2]} <= read_taints(node).keys())
    assert names[0] not in read_taints(node)
    before = read_taints(node)
    mig.restart()
    node.wait(lambda: read_taints(node) == before)
    assert before[names[1]] == [("gpu.nvidia.com/xid", "48")]


def test_an_application_xid_after_a_grave_one_makes_no_gpu_healthy(node: OneNode) -> None:
    """The later event is not the last word (https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/1243)."""
    plugin = node.start("dgx-h100")
    node.wait_published(8)
    node.wait((node.plugin_dir / "health.json").exists)
    node.play(XidEvent(gpu=1, xid=48), NeedsRecovery(gpu=1, action="gpu-reset"))
    node.wait(lambda: len(read_taints(node)) == 1)
    (name,) = read_taints(node)
    node.play(
        XidEvent(gpu=1, xid=48),
        NeedsRecovery(gpu=1, action="gpu-reset"),
        XidEvent(gpu=1, xid=13, id="late"),
        XidEvent(gpu=5, xid=79, id="last"),
    )
    node.wait(lambda: len(read_taints(node)) == 2)
    assert ("gpu.nvidia.com/xid", "48") in read_taints(node)[name]
    node.stop(plugin)
    assert json.loads((node.plugin_dir / "health.json").read_text())["counts"][name] == {"13": 1, "48": 1}


def test_a_half_prepared_claim_of_a_static_mig_device_removes_nothing_of_the_administrators(node: OneNode) -> None:
    """The plugin was killed in between (https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1056)."""
    mig = MigNode(node)
    with opened(mig.machine, node.mock_state) as library:
        make(library, 0, 14, 4)
    mig.start(MigSetting.STATIC, count=4)
    claim = node.allocate("one", [f"{GPU}-mig-2g-20gb-p14-4"])
    node.prepare(claim)
    path = node.plugin_dir / "claims" / f"{claim.uid}.json"
    record, body = decode_record(path.read_bytes())
    path.write_bytes(encode_record(msgspec.structs.replace(record, state=State.PREPARE_STARTED), body))
    mig.restart(MigSetting.STATIC)
    node.unprepare(claim)
    assert (mig.instances(), mig.records(), node.cdi_files()) == ([(GPU, 14, 4)], [], [])
