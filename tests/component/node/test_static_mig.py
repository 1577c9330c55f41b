"""MIG devices that an administrator made, on a whole node: real plugin, mock machine, fake kubelet and API server."""

from __future__ import annotations

import functools

import pytest

from driver.nvml.mock.faults import CallFails
from driver.topology.mig_offer import MigSetting
from tests.component.node.mig_node import GPU, MACHINE, MigNode, destroy_all, make, opened, switch_mode


def test_auto_is_static_where_an_administrator_uses_mig(mig: MigNode) -> None:
    mig.node.mock_state.mkdir(parents=True)
    with opened(MACHINE, mig.node.mock_state) as library:
        make(library, 0, 9, 0)
        make(library, 0, 19, 6)
    mig.start(count=3 * 26 + 2)
    own = {name: device for name, device in mig.node.devices().items() if name.startswith(GPU)}
    assert set(own) == {f"{GPU}-mig-3g-40gb-p9-0", f"{GPU}-mig-1g-10gb-p19-6"}
    assert all("consumesCounters" not in device and "uuid" in device["attributes"] for device in own.values())
    claim = mig.node.allocate("one", [f"{GPU}-mig-3g-40gb-p9-0"])
    mig.node.prepare(claim)
    assert len([node for node in mig.device_nodes(claim.uid) if "nvidia-cap" in node]) == 2
    mig.node.unprepare(claim)
    assert mig.instances() == [(GPU, 9, 0), (GPU, 19, 6)]


def test_static_devices_follow_the_administrator_without_a_restart(mig: MigNode) -> None:
    """B46, and a race at boot: capacity 8, allocatable 0."""
    mig.start(MigSetting.STATIC, count=4)
    steps: list[tuple[list[tuple[int, int]], int]] = [
        ([(14, 0), (14, 2), (14, 4)], 3 + 3),
        ([(19, start) for start in range(7)], 3 + 7),
        ([], 3),
    ]
    for instances, count in steps:
        with opened(MACHINE, mig.node.mock_state) as library:
            destroy_all(library, 0)
            switch_mode(library, 0, enabled=True)
            for profile, start in instances:
                make(library, 0, profile, start)
        mig.plugin.look_again()
        mig.node.wait(functools.partial(mig.has_published, count))
        assert GPU not in mig.node.devices()
    with opened(MACHINE, mig.node.mock_state) as library:
        switch_mode(library, 0, enabled=False)
    mig.plugin.look_again()
    mig.node.wait(lambda: GPU in mig.node.devices())


@pytest.mark.parametrize("call", ["nvmlDeviceGetMigMode", "nvmlDeviceGetGpuInstances", "nvmlGpuInstanceGetInfo"])
def test_static_devices_stay_while_they_cannot_be_read(mig: MigNode, call: str) -> None:
    """Free ones too; those of the other GPUs, which cannot be read either, as well."""
    mig.node.mock_state.mkdir(parents=True)
    with opened(MACHINE, mig.node.mock_state) as library:
        make(library, 0, 9, 4)
        make(library, 0, 14, 0)
    mig.start(MigSetting.STATIC, count=3 + 2)
    before = mig.node.devices()
    mig.node.play(CallFails(call=call, code="UNKNOWN"))
    mig.plugin.look_again()
    mig.node.wait(lambda: any("MIG cannot be read now" in each for each in mig.node.events("DeviceLimited")))
    assert mig.node.devices() == before
    mig.node.play()
    with opened(MACHINE, mig.node.mock_state) as library:
        destroy_all(library, 0)
    mig.plugin.look_again()
    mig.node.wait(lambda: len(mig.node.devices()) == 3)


def test_a_static_device_in_use_keeps_its_name_whatever_comes_beside_it(mig: MigNode) -> None:
    mig.node.mock_state.mkdir(parents=True)
    with opened(MACHINE, mig.node.mock_state) as library:
        make(library, 0, 9, 4)
    mig.start(MigSetting.STATIC, count=3 + 1)
    name = f"{GPU}-mig-3g-40gb-p9-4"
    claim = mig.node.allocate("one", [name])
    before = mig.node.prepare(claim)
    with opened(MACHINE, mig.node.mock_state) as library:
        make(library, 0, 14, 0)
    mig.plugin.look_again()
    mig.node.wait(lambda: len(mig.node.devices()) == 3 + 2)
    assert name in mig.node.devices()
    assert mig.node.prepare(claim) == before


def test_an_instance_that_is_divided_is_several_devices(mig: MigNode) -> None:
    """1c.2g.20gb, twice: two claims have one each."""
    mig.node.mock_state.mkdir(parents=True)
    with opened(MACHINE, mig.node.mock_state) as library:
        make(library, 0, 14, 0, parts=2)
    mig.start(MigSetting.STATIC, count=3 + 2)
    names = [f"{GPU}-mig-1c-2g-20gb-p14-0-c0-0", f"{GPU}-mig-1c-2g-20gb-p14-0-c0-1"]
    assert {name for name in mig.node.devices() if name.startswith(GPU)} == set(names)
    claims = [mig.node.allocate(f"claim-{number}", [name]) for number, name in enumerate(names)]
    mig.node.prepare(*claims)
    assert len({node for claim in claims for node in mig.device_nodes(claim.uid) if "nvidia-cap" in node}) == 3
