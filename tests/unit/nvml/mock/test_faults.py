"""Faults at run time: played at the next call, counted, taken back; a wrong file changes nothing."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from driver import log
from driver.errors import MachineInvalid, NvmlError
from driver.nvml.enums import EventType
from driver.nvml.library import Device, NvmlLibrary
from driver.nvml.mock import open_mock, write_faults
from driver.nvml.mock.faults import CallFails, CallHangs, EccEvent, Fault, GpuLost, LinkDown, NotReady, XidEvent
from tests.fakes.still_clock import StillClock


class Node:
    """An open mock with a clock that stands still."""

    def __init__(self, name: str, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.clock = StillClock()
        self.library: NvmlLibrary = open_mock(name, state_dir, clock=self.clock).library
        self.library.init()

    def play(self, *faults: Fault) -> None:
        write_faults(self.state_dir, faults)

    def gpu(self, index: int) -> Device:
        return self.library.device_handle_by_index(index)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node("dgx-1v", tmp_path)


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(NvmlError) as caught:
        call()
    return caught.value.name


def links_up(node: Node, index: int) -> int:
    device = node.gpu(index)
    return sum(node.library.device_nvlink_state(device, link) for link in range(6))


def test_a_lost_gpu_answers_no_more_and_comes_back(node: Node) -> None:
    device = node.gpu(3)
    node.play(GpuLost(gpu=3))
    assert code_of(lambda: node.gpu(3)) == "GPU_IS_LOST"
    assert code_of(lambda: node.library.device_uuid(device)) == "GPU_IS_LOST"
    assert node.library.device_minor_number(device) == 3
    assert node.library.device_pci_info(device).bus_id == "00000000:0B:00.0"
    assert node.library.device_minor_number(node.gpu(2)) == 2
    assert code_of(lambda: node.library.device_topology_common_ancestor(node.gpu(2), device)) == "GPU_IS_LOST"
    node.play()
    assert node.library.device_uuid(device).startswith("GPU-")


def test_a_lost_gpu_is_not_found_by_its_uuid(node: Node) -> None:
    uuid = node.library.device_uuid(node.gpu(3))
    node.play(GpuLost(gpu=3))
    assert code_of(lambda: node.library.device_handle_by_uuid(uuid)) == "GPU_IS_LOST"


def test_a_lost_gpu_takes_its_peers_links_down(node: Node) -> None:
    node.play(GpuLost(gpu=3))
    assert [links_up(node, index) for index in (0, 1, 2, 4)] == [4, 5, 4, 6]


def test_a_link_goes_down_in_one_direction(node: Node) -> None:
    node.play(LinkDown(gpu=0, peer=3))
    assert (links_up(node, 0), links_up(node, 3)) == (4, 6)


def test_links_go_down_by_number_or_all(node: Node) -> None:
    node.play(LinkDown(gpu=0, links=(0, 5)), LinkDown(gpu=1))
    assert (links_up(node, 0), links_up(node, 1), links_up(node, 2)) == (4, 0, 6)


def test_a_call_fails_for_one_gpu(node: Node) -> None:
    node.play(CallFails(call="nvmlDeviceGetName", code="UNKNOWN", gpu=2))
    assert code_of(lambda: node.library.device_name(node.gpu(2))) == "UNKNOWN"
    assert node.library.device_name(node.gpu(1)) == "Tesla V100-SXM2-16GB"


def test_a_call_fails_as_often_as_it_should(node: Node) -> None:
    node.play(CallFails(call="nvmlDeviceGetCount", code="NOT_READY", times=2))
    assert [code_of(node.library.device_count) for _ in range(2)] == ["NOT_READY", "NOT_READY"]
    assert node.library.device_count() == 8


def test_a_count_goes_on_when_another_fault_comes_and_begins_anew_when_it_was_away(node: Node) -> None:
    fails = CallFails(call="nvmlDeviceGetCount", code="NOT_READY", times=2)
    node.play(fails)
    code_of(node.library.device_count)
    node.play(fails, GpuLost(gpu=0))
    code_of(node.library.device_count)
    assert node.library.device_count() == 8
    node.play()
    node.library.device_count()
    node.play(fails)
    assert code_of(node.library.device_count) == "NOT_READY"


def test_a_count_of_the_machines_own_faults_goes_on_when_the_file_changes(tmp_path: Path) -> None:
    """They cannot be taken away, so nothing begins anew."""
    machine = tmp_path / "node.yaml"
    machine.write_text(
        "name: node\ndriver: 580.1.1\ncuda: '13.0'\ngpus: [{board: t4, pci: ['3b:00.0']}]\n"
        "faults: [{kind: call-fails, call: nvmlDeviceGetCount, code: NOT_READY, times: 1}]\n",
        encoding="utf-8",
    )
    node = Node(str(machine), tmp_path / "state")
    assert code_of(node.library.device_count) == "NOT_READY"
    node.play(GpuLost(gpu=0))
    assert node.library.device_count() == 1


def test_a_handle_by_index_can_be_refused_for_one_gpu(node: Node) -> None:
    node.play(CallFails(call="nvmlDeviceGetHandleByIndex", code="NO_PERMISSION", gpu=5))
    assert code_of(lambda: node.gpu(5)) == "NO_PERMISSION"
    assert node.library.device_minor_number(node.gpu(4)) == 4


def test_a_call_hangs_for_its_time(node: Node) -> None:
    node.play(CallHangs(call="nvmlDeviceGetName", seconds=3.0, gpu=1))
    before_s = node.clock.time_s
    assert node.library.device_name(node.gpu(0))
    assert node.clock.time_s == before_s
    assert node.library.device_name(node.gpu(1))
    assert 3.0 <= node.clock.time_s - before_s < 3.1


def test_a_call_hangs_until_the_fault_is_taken_away(node: Node) -> None:
    node.play(CallHangs(call="nvmlDeviceGetCount"))
    node.clock.on_sleep = lambda _: node.play() if node.clock.time_s > 1_000_060 else None
    assert node.library.device_count() == 8
    assert 60 <= node.clock.time_s - 1_000_000 < 61


def test_a_driver_that_is_not_loaded_refuses_everything(node: Node) -> None:
    node.play(NotReady())
    assert code_of(node.library.device_count) == "DRIVER_NOT_LOADED"
    assert code_of(node.library.init) == "DRIVER_NOT_LOADED"
    node.play()
    assert node.library.device_count() == 8


def test_a_driver_is_loaded_when_its_time_has_come(node: Node) -> None:
    node.play(NotReady(until=node.clock.time_s + 5))
    assert code_of(node.library.device_count) == "DRIVER_NOT_LOADED"
    node.clock.sleep(5)
    assert node.library.device_count() == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("faults: [{kind: gpu-lost, gpu: 8}]", "there is no GPU 8"),
        ("faults: [{kind: gpu-lost}]", "missing required field `gpu`"),
        ("faults: [{kind: fire}]", "Invalid value 'fire'"),
        ("fault: []", "unknown field `fault`"),
        ("faults: [", "no readable YAML"),
    ],
)
def test_a_wrong_file_is_said_once_and_the_faults_before_it_stay(
    node: Node, caplog: pytest.LogCaptureFixture, text: str, message: str
) -> None:
    node.play(GpuLost(gpu=3))
    code_of(lambda: node.gpu(3))
    with caplog.at_level(logging.ERROR):
        (node.state_dir / "faults.yaml").write_text(text, encoding="utf-8")
        assert [code_of(lambda: node.gpu(3)) for _ in range(3)] == ["GPU_IS_LOST"] * 3
    assert [message in str(log.read_event(record)["error"]) for record in caplog.records] == [True]


def test_a_wrong_file_is_refused_when_the_machine_is_opened(tmp_path: Path) -> None:
    (tmp_path / "faults.yaml").write_text("faults: [{kind: gpu-lost, gpu: 64}]", encoding="utf-8")
    with pytest.raises(MachineInvalid, match=r"faults\.yaml: .*\$\.faults\[0\]\.gpu"):
        open_mock("dgx-1v", tmp_path)


def test_a_file_written_by_hand_is_read(node: Node) -> None:
    text = "faults:\n  - kind: call-fails\n    call: nvmlDeviceGetCount\n    code: UNKNOWN\n    times: 1\n"
    (node.state_dir / "faults.yaml").write_text(text, encoding="utf-8")
    assert code_of(node.library.device_count) == "UNKNOWN"


def test_an_unchanged_file_is_not_read_again(node: Node) -> None:
    """A call costs a look at the file, not a reading."""
    path = node.state_dir / "faults.yaml"
    node.play(GpuLost(gpu=3))
    code_of(lambda: node.gpu(3))
    status = path.stat()
    with path.open("r+b") as file:
        file.write(b" " * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert code_of(lambda: node.gpu(3)) == "GPU_IS_LOST"


def watch(node: Node, *gpus: int, types: int = EventType.XID_CRITICAL) -> Callable[[int], tuple[str, int, int] | None]:
    event_set = node.library.event_set_create()
    for gpu in gpus:
        node.library.device_register_events(node.gpu(gpu), types, event_set)

    def wait(timeout_ms: int) -> tuple[str, int, int] | None:
        event = node.library.event_set_wait(event_set, timeout_ms)
        return None if event is None else (event.uuid, event.type, event.data)

    return wait


def test_an_event_is_given_to_every_set_that_waits_for_it(node: Node) -> None:
    first, second, other = watch(node, 0, 1), watch(node, 1), watch(node, 2)
    uuid = node.library.device_uuid(node.gpu(1))
    node.play(XidEvent(gpu=1, xid=48))
    assert [wait(0) for wait in (first, second, other)] == [(uuid, 8, 48), (uuid, 8, 48), None]
    assert [wait(0) for wait in (first, second, other)] == [None, None, None]


def test_an_event_that_was_there_before_the_set_is_over(node: Node) -> None:
    node.play(XidEvent(gpu=1, xid=48))
    assert watch(node, 1)(0) is None


def test_only_a_new_entry_is_an_event(node: Node) -> None:
    wait = watch(node, 1)
    first, again = XidEvent(gpu=1, xid=48), XidEvent(gpu=1, xid=48, id="2")
    node.play(first)
    assert wait(0) is not None
    node.play(first, GpuLost(gpu=0))
    assert wait(0) is None
    node.play(first, again)
    assert wait(0) is not None
    node.play(again)
    assert wait(0) is None


def test_events_of_one_file_come_in_order(node: Node) -> None:
    wait = watch(node, *range(8))
    node.play(*(XidEvent(gpu=gpu, xid=70 + gpu) for gpu in (5, 1, 3)))
    assert [event[2] for event in (wait(0), wait(0), wait(0)) if event is not None] == [75, 71, 73]


def test_an_event_of_a_lost_gpu_still_names_it(node: Node) -> None:
    """Asked then, NVML would say GPU_IS_LOST, and one would not know whose event it is."""
    wait, uuid = watch(node, 4), node.library.device_uuid(node.gpu(4))
    node.play(GpuLost(gpu=4), XidEvent(gpu=4, xid=79))
    assert wait(0) == (uuid, 8, 79)


def test_ecc_errors_come_by_their_kind(node: Node) -> None:
    wait = watch(node, 0, types=EventType.DOUBLE_BIT_ECC)
    node.play(EccEvent(gpu=0, bits="single"), EccEvent(gpu=0, bits="double"), XidEvent(gpu=0, xid=1))
    event = wait(0)
    assert event is not None
    assert event[1:] == (EventType.DOUBLE_BIT_ECC, 0)
    assert wait(0) is None


def test_a_mig_instances_event_names_it(tmp_path: Path) -> None:
    node = Node("dgx-h100", tmp_path)
    event_set = node.library.event_set_create()
    node.library.device_register_events(node.gpu(0), EventType.XID_CRITICAL, event_set)
    node.play(XidEvent(gpu=0, xid=13, gpu_instance=3, compute_instance=0))
    event = node.library.event_set_wait(event_set, 0)
    assert event is not None
    assert (event.gpu_instance_id, event.compute_instance_id) == (3, 0)


def test_a_wait_sleeps_and_does_not_spin(node: Node) -> None:
    """B36."""
    assert watch(node, 0)(3000) is None
    assert 60 <= len(node.clock.sleeps_s) <= 61
    assert 3.0 <= node.clock.time_s - 1_000_000 < 3.01


def test_an_event_ends_a_wait_within_a_tenth_of_a_second(node: Node) -> None:
    """B36."""
    wait = watch(node, 0)
    node.clock.on_sleep = lambda _: node.play(XidEvent(gpu=0, xid=48)) if node.clock.time_s >= 1_000_001.5 else None
    assert wait(10_000) is not None
    assert node.clock.time_s < 1_000_001.6


def test_a_wait_ends_when_the_library_is_closed(node: Node) -> None:
    event_set = node.library.event_set_create()
    node.clock.on_sleep = lambda _: node.library.shutdown()
    assert code_of(lambda: node.library.event_set_wait(event_set, 10_000)) == "UNINITIALIZED"


def test_a_set_that_was_freed_is_refused(node: Node) -> None:
    event_set = node.library.event_set_create()
    node.library.event_set_free(event_set)
    assert code_of(lambda: node.library.event_set_wait(event_set, 0)) == "INVALID_ARGUMENT"


def test_a_storm_is_fetched_event_by_event_among_lasting_faults(node: Node) -> None:
    """Each once, in order; calls between them still meet the other faults."""
    take, lost = watch(node, 0), node.gpu(1)
    node.play(GpuLost(gpu=1), *(XidEvent(gpu=0, xid=13, id=str(place)) for place in range(500)))
    assert all(take(0) for _ in range(500))
    assert take(0) is None
    assert code_of(lambda: node.library.device_uuid(lost)) == "GPU_IS_LOST"
