"""MIG devices of claims: what is given out, held, owed and paid. ``test_mig_crashes`` has where the process dies."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from driver.claims.mig_debts import MigDebts
from driver.claims.record import decode_record
from driver.errors import ClaimError, DeviceInUse, DeviceNotReady, MigRefused
from driver.host.device_nodes import DeviceNode
from driver.nvml.library import Placement
from driver.nvml.mock.faults import CallFails, GpuLost, NotReady
from tests.fakes.claims import Call, prepare_one, ref, uid, unprepare_one
from tests.fakes.mig_claims import GPU, MigNode
from tests.unit.claims.two_mig_devices import MADE, ONE, OTHER, prepared, put


@pytest.fixture
def node(tmp_path: Path) -> MigNode:
    return MigNode(tmp_path)


def test_a_failed_prepare_leaves_its_place_to_others_at_once(node: MigNode) -> None:
    put(node, 1, ONE)
    put(node, 2, ONE)
    preparer = node.start()
    node.play(CallFails(call="nvmlGpuInstanceCreateComputeInstance", code="UNKNOWN"))
    assert isinstance(prepare_one(preparer, 1), MigRefused)
    node.play()
    assert (node.instances(), node.leftovers()) == ([], [])
    assert not isinstance(prepare_one(preparer, 2), ClaimError)


def test_what_cannot_even_be_undone_is_held_until_it_can(node: MigNode) -> None:
    put(node, 1, ONE)
    put(node, 2, ONE)
    preparer = node.start()
    node.play(
        CallFails(call="nvmlGpuInstanceCreateComputeInstance", code="UNKNOWN"),
        CallFails(call="nvmlGpuInstanceDestroy", code="IN_USE"),
    )
    assert isinstance(prepare_one(preparer, 1), MigRefused)
    assert node.instances() == [(GPU, 14, 4, 0)]
    assert isinstance(prepare_one(preparer, 2), DeviceInUse)
    node.play()
    assert unprepare_one(preparer, 1) is None
    assert not isinstance(prepare_one(preparer, 2), ClaimError)


def test_1337_a_claim_that_is_rolled_back_harms_no_other_at_the_same_place(node: MigNode) -> None:
    """Two names for one place, and a record of either, as an older driver may have left them."""
    put(node, 1, ONE)
    preparer = node.start()
    prepare_one(preparer, 1)
    stored = decode_record(node.record_path(1).read_bytes())[0]
    double = msgspec.structs.replace(stored, uid=uid(2), name="claim-2")
    preparer.work.carrier.records.write(double)
    assert unprepare_one(preparer, 2) is None
    assert node.instances() == [MADE]
    assert unprepare_one(preparer, 1) is None
    assert node.instances() == []


@pytest.mark.parametrize("fault", [NotReady(), GpuLost(gpu=0)], ids=["no driver", "the GPU is lost"])
def test_r29_an_unprepare_does_not_wait_for_a_driver(node: MigNode, fault: NotReady | GpuLost) -> None:
    """A drain waits for it to replace the driver; the place stays blocked, and is freed when the driver is back."""
    put(node, 1, ONE)
    put(node, 2, ONE)
    preparer = node.start()
    prepare_one(preparer, 1)
    catalog = node.read()
    node.read = lambda: catalog  # type: ignore[method-assign]  # no new pass without a driver
    node.play(fault)
    assert unprepare_one(preparer, 1) is None
    assert isinstance(prepare_one(preparer, 2), DeviceInUse)
    preparer.repair()
    assert len(MigDebts(node.plugin / "mig").read_all()) == 1
    node.play()
    assert node.instances() == [MADE]
    node.start().repair()
    assert (node.instances(), node.divided()) == ([], [])
    assert not isinstance(prepare_one(preparer, 2), ClaimError)


def test_a_boot_pays_every_debt(node: MigNode) -> None:
    """What lies there now is another's: it is not touched."""
    put(node, 1, ONE)
    preparer = node.start()
    prepare_one(preparer, 1)
    node.play(NotReady())
    catalog = node.read
    node.read = lambda: node_catalog  # type: ignore[method-assign]
    node.play()
    node_catalog = catalog()
    node.play(NotReady())
    assert unprepare_one(preparer, 1) is None
    node.play()
    node.reboot()
    node_catalog = catalog()
    preparer.repair()
    assert node.instances() == [MADE]
    assert MigDebts(node.plugin / "mig").read_all() == ()


def test_a_debt_that_cannot_be_read_is_kept_and_said(node: MigNode, caplog: pytest.LogCaptureFixture) -> None:
    debts = MigDebts(node.plugin / "mig")
    debts.start()
    (debts.folder / "gpu-x-p19-0.json").write_bytes(b"{")
    assert debts.read_all() == ()
    assert (debts.folder / "gpu-x-p19-0.json").exists()
    assert "cannot be read" in caplog.text


def test_a_card_that_was_taken_out_took_its_instances_along(node: MigNode) -> None:
    put(node, 1, ONE)
    preparer = node.start()
    prepare_one(preparer, 1)
    node.play(CallFails(call="nvmlDeviceGetHandleByUUID", code="NOT_FOUND"))
    assert unprepare_one(preparer, 1) is None
    assert node.leftovers() == []


def test_a_monitor_makes_no_mig_device(node: MigNode) -> None:
    """B66."""
    put(node, 1, ONE, admin_access=True)
    answer = prepare_one(node.start(), 1)
    assert isinstance(answer, ClaimError)
    assert "adminAccess" in str(answer)
    assert node.instances() == []


def test_a_monitor_of_the_whole_gpu_changes_nothing_of_its_parts(node: MigNode) -> None:
    put(node, 1, ONE)
    put(node, 2, GPU, admin_access=True)
    preparer = node.start()
    prepare_one(preparer, 1)
    assert not isinstance(prepare_one(preparer, 2), ClaimError)
    assert unprepare_one(preparer, 2) is None
    assert (node.instances(), node.divided()) == ([MADE], [GPU])


def test_a_whole_gpu_takes_mig_mode_off_and_needs_one_record(node: MigNode) -> None:
    put(node, 1, GPU)
    with node.opened() as library:
        library.device_set_mig_mode(library.device_handle_by_index(0), enabled=True)
    preparer = node.start()
    assert not isinstance(prepare_one(preparer, 1), ClaimError)
    assert node.divided() == []
    assert node.steps == [
        "prepare:mig-mode-off",
        "prepare:metadata",
        "prepare:record-PrepareCompleted",
        "prepare:cdi-file",
        "prepare:done",
    ]


def test_a_whole_gpu_with_somebodys_instance_is_not_given_out(node: MigNode) -> None:
    put(node, 1, GPU)
    preparer = node.start()
    catalog = node.read()
    node.read = lambda: catalog  # type: ignore[method-assign]  # it came after the last pass
    make(node, 19, 2)
    answer = prepare_one(preparer, 1)
    assert isinstance(answer, MigRefused)
    assert "no claim made it" in str(answer)
    assert node.instances() == [(GPU, 19, 2, 0)]


def test_the_record_of_a_mig_device_is_no_business_of_an_older_driver(node: MigNode) -> None:
    """It would take it for a GPU of that name, and leave the instance behind."""
    put(node, 1, ONE)
    put(node, 2, "gpu-0000-46-00-0")
    preparer = node.start()
    prepare_one(preparer, 1)
    prepare_one(preparer, 2)
    assert [record["version"] for record in node.records().values()] == [2, 1]


def test_a_record_in_a_cdi_file_brings_the_instance_back_to_its_claim(node: MigNode) -> None:
    """R12: the record is corrupt; its container runs on the instance, which must not be made anew."""
    put(node, 1, ONE)
    preparer = node.start()
    before = prepare_one(preparer, 1)
    node.record_path(1).write_bytes(b"junk")
    again = node.start()
    assert again.read_mig().owned
    node.steps.clear()
    assert prepare_one(again, 1) == before
    assert "prepare:gpu-instance" not in node.steps
    assert unprepare_one(again, 1) is None
    assert node.instances() == []


def test_an_allocation_that_changed_moves_the_claim(node: MigNode) -> None:
    """R9."""
    put(node, 1, ONE)
    preparer = node.start()
    prepare_one(preparer, 1)
    put(node, 1, OTHER)
    preparer.note_registered()
    prepare_one(preparer, 1)
    assert node.instances() == [(GPU, 19, 0, 1)]


def test_several_instances_of_one_claim_come_and_go_together(node: MigNode) -> None:
    names = (f"{GPU}-mig-4g-40gb-p5-0", ONE, f"{GPU}-mig-1g-10gb-p19-6", "gpu-0000-46-00-0-mig-1g-10gb-p19-6")
    put(node, 1, *names)
    preparer = node.start()
    assert [device.device for device in prepared(preparer, 1)] == list(names)
    assert len(node.instances()) == 4
    unprepare_one(preparer, 1)
    assert (node.instances(), node.divided()) == ([], [])


def test_two_claims_on_one_gpu_at_a_time_take_turns(node: MigNode) -> None:
    put(node, 1, ONE)
    put(node, 2, OTHER)
    preparer = node.start()
    answers = preparer.prepare([ref(1), ref(2)], Call())
    assert not any(isinstance(answer, ClaimError) for answer in answers.values())
    assert sorted(node.instances()) == [(GPU, 14, 4, 1), (GPU, 19, 0, 1)]
    assert set(preparer.unprepare([ref(1), ref(2)], Call()).values()) == {None}
    assert (node.instances(), node.divided()) == ([], [])


def test_an_instance_without_its_capabilities_is_no_device(node: MigNode) -> None:
    """B40: a container would see only the unusable parent."""
    put(node, 1, ONE)
    preparer = node.start()

    def missing(minor: int, gpu_instance: int, compute_instance: int) -> tuple[DeviceNode, ...]:
        raise DeviceNotReady("no capability")

    kept = node.host.read_mig_nodes
    node.host.read_mig_nodes = missing  # type: ignore[method-assign]
    assert isinstance(prepare_one(preparer, 1), DeviceNotReady)
    node.host.read_mig_nodes = kept  # type: ignore[method-assign]
    assert (node.instances(), node.granted()) == ([], set())
    assert not isinstance(prepare_one(preparer, 1), ClaimError)


def make(node: MigNode, profile_id: int, start: int) -> None:
    """An administrator's GPU instance, half made."""
    with node.opened() as library:
        device = library.device_handle_by_index(0)
        library.device_set_mig_mode(device, enabled=True)
        library.device_create_gpu_instance_with_placement(device, profile_id, Placement(start=start, size=1))
