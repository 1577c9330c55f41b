"""The counters of a divided GPU allow what the hardware allows, and nothing else."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.api.resource_v1 import Device
from driver.nvml.library import Placement
from driver.nvml.mock import read_mock_machine
from driver.nvml.mock.mig import MigState, Refused, plan_gpu_instance
from driver.topology.mig_names import parse_mig_name
from tests.unit.resourceslice.mig_pools import Scheduler, built, divisible, profile_of

H = "h100-80gb"
MACHINES = {"dgx-a100": "a100-40gb", "dgx-h100": H, "dgx-h200": "h200-141gb", "hgx-b200": "b200", "a30": "a30"}
MACHINES |= {"rtx-pro-6000": "rtx-pro-6000"}
BUILT = {name: built([divisible(0, table)]) for name, table in MACHINES.items()}
GPUS = {name: read_mock_machine(name).gpus[0] for name in MACHINES}
ON = MigState(is_enabled=True, is_enabled_after_reset=True)


class Hardware:
    """The mock's rules, which are the hardware's."""

    def __init__(self, name: str, state: MigState = ON) -> None:
        self.gpu = GPUS[name]
        self.state = state

    def make(self, device: Device) -> bool:
        """False where it is refused; then nothing has changed."""
        identity = parse_mig_name(device.name)
        assert identity is not None
        assert self.gpu.board.mig is not None
        profile = self.gpu.board.mig.by_id(identity.profile_id)
        assert profile is not None
        place = Placement(start=identity.start, size=profile.placements[0].size)
        try:
            self.state, _ = plan_gpu_instance(self.gpu, self.state, identity.profile_id, place)
        except Refused:
            return False
        return True


@pytest.mark.parametrize("name", MACHINES)
def test_the_counters_allow_each_pair_that_the_hardware_allows_and_no_other(name: str) -> None:
    parts = [device for device in BUILT[name].devices if profile_of(device) != "whole"]
    for one in parts:
        after = Hardware(name)
        assert after.make(one)
        scheduler = Scheduler(BUILT[name].devices, BUILT[name].counter_sets)
        scheduler.take(one)
        for other in parts:
            if other is not one:
                assert scheduler.can_have(other) == Hardware(name, after.state).make(other), (one.name, other.name)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(MACHINES)), st.randoms(use_true_random=False))
def test_the_counters_forbid_what_the_hardware_would_refuse_and_nothing_else(name: str, rng: random.Random) -> None:
    """Any number of devices in any order."""
    parts = [device for device in BUILT[name].devices if profile_of(device) != "whole"]
    scheduler, hardware = Scheduler(BUILT[name].devices, BUILT[name].counter_sets), Hardware(name)
    for device in rng.sample(parts, len(parts)):
        is_free = scheduler.can_have(device)
        assert hardware.make(device) == is_free, (device.name, sorted(scheduler.taken))
        if is_free:
            scheduler.take(device)
    assert not scheduler.can_have(BUILT[name].devices[0])


LAYOUTS = {
    # topology.md 2.12 and B41; what one GPU can hold at a time
    "four 1g": (("1g.10gb",) * 4, True),
    "seven 1g": (("1g.10gb",) * 7, True),
    "eight 1g": (("1g.10gb",) * 8, False),
    "three 1g and a 4g": (("1g.10gb",) * 3 + ("4g.40gb",), True),
    "3g and 4g": (("3g.40gb", "4g.40gb"), True),
    "two 3g": (("3g.40gb", "3g.40gb"), True),
    "two 3g and a 1g": (("3g.40gb", "3g.40gb", "1g.10gb"), False),
    "two 4g": (("4g.40gb", "4g.40gb"), False),
    "3g, 2g, 1g, 1g": (("3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"), True),
    "four 1g of double memory": (("1g.20gb",) * 4, True),
    "these and a 1g": (("1g.20gb",) * 4 + ("1g.10gb",), False),
    "two with media": (("1g.10gb+me", "1g.10gb+me"), False),
    "a part and the whole": (("1g.10gb", "whole"), False),
    "7g alone": (("7g.80gb",), True),
    "7g and a 1g": (("7g.80gb", "1g.10gb"), False),
}


@pytest.mark.parametrize(("layout", "is_possible"), LAYOUTS.values(), ids=LAYOUTS.keys())
def test_a_layout_has_places_or_none(layout: tuple[str, ...], is_possible: bool) -> None:
    """By search, as kube-scheduler does for one claim."""
    found = built([divisible(0, H)])
    assert _has_places(Scheduler(found.devices, found.counter_sets), layout) is is_possible


def _has_places(scheduler: Scheduler, layout: tuple[str, ...]) -> bool:
    if not layout:
        return True
    for device in scheduler.devices:
        if profile_of(device) == layout[0] and scheduler.can_have(device):
            scheduler.take(device)
            if _has_places(scheduler, layout[1:]):
                return True
            scheduler.take(device, sign=-1)
    return False
