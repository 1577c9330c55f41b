"""MIG devices on a whole node: real plugin, mock machine, fake kubelet and API server."""

from __future__ import annotations

import pytest

from driver.nvml.mock.faults import CallFails, NotReady
from driver.nvml.mock.machine import reboot
from driver.topology.mig_offer import MigSetting
from tests.component.node.mig_node import ALL, GPU, MACHINE, MigNode, destroy_all, make, opened
from tests.component.node.one_node import DRIVER, OneNode
from tests.fakes.kubelet import CallFailed
from tests.fakes.slice_rules import pool_faults


def test_every_placement_of_every_profile_is_published_with_counters(mig: MigNode) -> None:
    mig.start()
    assert pool_faults(mig.contents()) == []
    assert [each.name for content in mig.contents() for each in content.shared_counters] == [
        "gpu-0000-06-00-0",
        "gpu-0000-46-00-0",
        "gpu-0000-86-00-0",
        "gpu-0000-c6-00-0",
    ]
    devices = mig.node.devices()
    assert {device["attributes"]["type"]["string"] for device in devices.values()} == {"gpu", "mig"}
    assert all(len(device["consumesCounters"]) == 1 for device in devices.values())


def test_a_mig_device_is_made_for_its_claim_and_removed_with_it(mig: MigNode) -> None:
    mig.start()
    name = f"{GPU}-mig-2g-20gb-p14-4"
    claim = mig.node.allocate("one", [name])
    (device,) = mig.node.prepare(claim)[claim.uid]
    assert device.device == name
    assert mig.instances() == [(GPU, 14, 4)]
    assert mig.divided() == [GPU]
    edits = mig.spec(claim.uid)["devices"][0]["containerEdits"]
    nodes = {each["path"]: (each["major"], each["minor"]) for each in edits["deviceNodes"]}
    capabilities = sorted(path for path in nodes if "nvidia-cap" in path)
    assert "/dev/nvidia0" in nodes
    assert len(capabilities) == 2
    assert {nodes[path][0] for path in capabilities} == {234}
    assert [text.split("=")[0] for text in edits["env"]] == ["GPU_DRA_DEVICE_0000_06_00_0_MIG_14_4"]
    assert edits["env"][0].split("=")[1].startswith("MIG-")
    assert mig.node.prepare(claim)[claim.uid] == (device,)
    mig.node.unprepare(claim)
    assert (mig.instances(), mig.divided(), mig.records(), mig.node.cdi_files()) == ([], [], [], [])


def test_a_gpu_that_was_divided_is_given_out_whole_again(mig: MigNode) -> None:
    mig.start()
    part = mig.node.allocate("part", [f"{GPU}-mig-1g-10gb-p19-6"])
    whole = mig.node.allocate("whole", [GPU])
    mig.node.prepare(part)
    with pytest.raises(CallFailed, match="is held by claim team/part"):
        mig.node.prepare(whole)
    mig.node.unprepare(part)
    mig.node.prepare(whole)
    assert mig.divided() == []
    with pytest.raises(CallFailed, match="is held by claim team/whole"):
        mig.node.prepare(part)


def test_the_same_place_under_two_names_is_one_place(mig: MigNode) -> None:
    """R2: an older driver called the profile otherwise; neither claim may touch the other's instance."""
    mig.start()
    claim = mig.node.allocate("one", [f"{GPU}-mig-1g-10gb-p19-3"])
    mig.node.prepare(claim)
    other = mig.node.allocate("other", [f"{GPU}-mig-1g-11gb-p19-3"])
    with pytest.raises(CallFailed, match="is held by claim team/one"):
        mig.node.prepare(other)
    mig.node.unprepare(other)
    assert mig.instances() == [(GPU, 19, 3)]


def test_a_profile_that_was_renamed_is_still_prepared(mig: MigNode) -> None:
    mig.start()
    claim = mig.node.allocate("one", [f"{GPU}-mig-1g-11gb-p19-3"])
    (device,) = mig.node.prepare(claim)[claim.uid]
    assert device.device == f"{GPU}-mig-1g-11gb-p19-3"
    assert mig.instances() == [(GPU, 19, 3)]


def test_several_mig_devices_in_one_claim(mig: MigNode) -> None:
    """B47: each has its own variable and its own capabilities."""
    mig.start()
    names = [f"{GPU}-mig-4g-40gb-p5-0", f"{GPU}-mig-2g-20gb-p14-4", f"{GPU}-mig-1g-10gb-p19-6"]
    claim = mig.node.allocate("three", names)
    mig.node.prepare(claim)
    assert mig.instances() == [(GPU, 5, 0), (GPU, 14, 4), (GPU, 19, 6)]
    edits = [device["containerEdits"] for device in mig.spec(claim.uid)["devices"]]
    assert len({each["env"][0].split("=")[0] for each in edits}) == 3
    assert len({node["path"] for each in edits for node in each["deviceNodes"] if "nvidia-cap" in node["path"]}) == 6


FAILS = ["nvmlDeviceSetMigMode", "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance"]


@pytest.mark.parametrize("call", FAILS)
def test_a_call_that_fails_leaves_nothing_behind_and_the_next_try_succeeds(mig: MigNode, call: str) -> None:
    """#1452: a GPU instance without its compute instance is undone, and wedges nobody."""
    mig.start()
    claim = mig.node.allocate("one", [f"{GPU}-mig-3g-40gb-p9-4"])
    mig.node.play(CallFails(call=call, code="UNKNOWN"))
    with pytest.raises(CallFailed, match=call):
        mig.node.prepare(claim)
    mig.node.play()
    assert mig.instances() == []
    assert mig.records() == []
    mig.node.prepare(claim)
    assert mig.instances() == [(GPU, 9, 4)]


@pytest.mark.parametrize("call", ["nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy"])
def test_a_destroy_that_is_refused_keeps_the_claim_until_it_succeeds(mig: MigNode, call: str) -> None:
    """B45: a monitoring client holds the GPU open."""
    mig.start()
    claim = mig.node.allocate("one", [f"{GPU}-mig-1g-10gb-p19-0"])
    mig.node.prepare(claim)
    mig.node.play(CallFails(call=call, code="IN_USE"))
    for _ in range(3):
        with pytest.raises(CallFailed, match="something holds the GPU open"):
            mig.node.unprepare(claim)
    assert mig.records() == [f"{claim.uid}.ending"]
    other = mig.node.allocate("other", [GPU])
    with pytest.raises(CallFailed, match="is held by claim team/one"):
        mig.node.prepare(other)
    mig.node.play()
    mig.node.unprepare(claim)
    assert (mig.instances(), mig.divided(), mig.records()) == ([], [], [])


def test_a_mode_that_cannot_be_taken_back_holds_nobody_up(mig: MigNode) -> None:
    mig.start()
    claim = mig.node.allocate("one", [f"{GPU}-mig-1g-10gb-p19-0"])
    mig.node.prepare(claim)
    mig.node.play(CallFails(call="nvmlDeviceSetMigMode", code="IN_USE"))
    mig.node.unprepare(claim)
    assert (mig.instances(), mig.divided(), mig.records()) == ([], [GPU], [])
    mig.node.play()
    mig.plugin.look_again()
    mig.node.wait(lambda: mig.divided() == [])
    assert len(mig.node.devices()) == ALL


def test_without_a_driver_an_unprepare_succeeds_and_the_instance_goes_later(mig: MigNode) -> None:
    """R29."""
    mig.start()
    name = f"{GPU}-mig-1g-10gb-p19-0"
    claim = mig.node.allocate("one", [name])
    mig.node.prepare(claim)
    mig.node.play(NotReady())
    mig.node.unprepare(claim)
    assert mig.records() == []
    other = mig.node.allocate("other", [name])
    with pytest.raises(CallFailed, match="yet to be removed"):
        mig.node.prepare(other)
    mig.node.play()
    assert mig.instances() == [(GPU, 19, 0)]
    mig.plugin.look_again()
    mig.node.wait(lambda: mig.instances() == [])
    mig.node.wait(lambda: list((mig.node.plugin_dir / "mig").iterdir()) == [])
    mig.node.prepare(other)
    assert mig.instances() == [(GPU, 19, 0)]


def test_what_somebody_else_made_is_left_alone_and_its_place_not_offered(mig: MigNode) -> None:
    """B38: a foreign 3g at 4."""
    mig.start(MigSetting.DYNAMIC)
    with opened(MACHINE, mig.node.mock_state) as library:
        make(library, 0, 9, 4)
    mig.plugin.look_again()
    # Of 26: the whole GPU, the 7g, the second 3g, and what else of 1g and 2g would lie in the upper half.
    mig.node.wait(lambda: mig.has_published(ALL - 12))
    left = {name for name in mig.node.devices() if name.startswith(GPU)}
    assert GPU not in left
    assert {name[len(GPU) :] for name in left if "-3g-" in name or "-4g-" in name} == {"-mig-3g-40gb-p9-0", "-mig-4g-40gb-p5-0"}
    assert not any(name.endswith(("-4", "-5", "-6")) for name in left)
    assert pool_faults(mig.contents()) == []
    claim = mig.node.allocate("one", [f"{GPU}-mig-3g-40gb-p9-0"])
    mig.node.prepare(claim)
    mig.node.unprepare(claim)
    assert mig.instances() == [(GPU, 9, 4)]
    with opened(MACHINE, mig.node.mock_state) as library:
        destroy_all(library, 0)
    mig.plugin.look_again()
    mig.node.wait(lambda: len(mig.node.devices()) == ALL)


def test_an_instance_in_the_way_fails_the_claim_alone_until_it_is_gone(mig: MigNode) -> None:
    mig.start()
    with opened(MACHINE, mig.node.mock_state) as library:
        make(library, 0, 19, 0, parts=0)
    claim = mig.node.allocate("one", [f"{GPU}-mig-4g-40gb-p5-0"])
    with pytest.raises(CallFailed, match="no claim made it"):
        mig.node.prepare(claim)
    assert mig.records() == []
    with opened(MACHINE, mig.node.mock_state) as library:
        destroy_all(library, 0)
    mig.node.prepare(claim)
    assert mig.instances() == [(GPU, 5, 0)]


def test_a_reboot_takes_the_instances_and_the_next_prepare_makes_them_again(mig: MigNode) -> None:
    mig.start()
    claim = mig.node.allocate("one", [f"{GPU}-mig-1g-20gb-p15-6"])
    before = mig.node.prepare(claim)[claim.uid]
    mig.node.stop(mig.plugin)
    reboot(mig.node.mock_state)
    assert mig.instances() == []
    mig.plugin = mig.node.start(MACHINE, mig=MigSetting.AUTO)
    mig.node.kubelet.wait_registered(DRIVER)
    assert mig.node.prepare(claim)[claim.uid] == before
    assert mig.instances() == [(GPU, 15, 6)]
    mig.node.unprepare(claim)
    assert mig.instances() == []


def test_an_instance_that_was_removed_by_hand_is_made_again_when_the_kubelet_asks(mig: MigNode) -> None:
    mig.start()
    claim = mig.node.allocate("one", [f"{GPU}-mig-1g-10gb-p19-2"])
    mig.node.prepare(claim)
    with opened(MACHINE, mig.node.mock_state) as library:
        destroy_all(library, 0)
    mig.node.prepare(claim)
    assert mig.instances() == [(GPU, 19, 2)]


def test_ampere_is_never_switched(node: OneNode) -> None:
    """#883: it would wait for a reset, and be of no use until then."""
    mig = MigNode(node, "hgx-a100-4")
    mig.start(MigSetting.DYNAMIC, count=4)
    assert {device["attributes"]["type"]["string"] for device in node.devices().values()} == {"gpu"}
    notes = node.events("DeviceLimited")
    assert any("changes only with a reset" in note for note in notes)
    first = sorted(node.devices())[0]
    node.prepare(node.allocate("one", [first]))
    assert mig.divided() == []


def test_an_older_api_server_gets_no_partitions(mig: MigNode) -> None:
    """1.35: whole GPUs and static MIG; counters would be dropped, and overlapping devices published as free."""
    mig.node.api.version = {"major": "1", "minor": "35", "gitVersion": "v1.35.2"}
    mig.start(count=4)
    assert all("consumesCounters" not in device for device in mig.node.devices().values())


def test_a_restart_knows_its_own_instances(mig: MigNode) -> None:
    mig.start()
    claim = mig.node.allocate("one", [f"{GPU}-mig-1g-10gb-p19-2"])
    before = mig.node.prepare(claim)
    mig.restart()
    mig.node.wait(lambda: len(mig.node.devices()) == ALL)
    assert mig.node.prepare(claim) == before
    assert mig.instances() == [(GPU, 19, 2)]
    mig.node.unprepare(claim)
    assert mig.instances() == []
