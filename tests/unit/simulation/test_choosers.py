"""Those who choose: each gives every GPU to one pod at a time, and ours as the allocator says."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.allocator.cel_engine import CelEngine
from driver.allocator.device_node import DeviceId
from driver.allocator.fleet import Fleet, Holding
from driver.allocator.hold import HoldRule
from driver.cli.simulation.arrivals import Arrival, read_arrivals
from driver.cli.simulation.choosers import build_chooser
from driver.cli.simulation.fleets import build_fleet, name_nodes, plain_devices, read_machine_devices
from driver.cli.simulation.replay import Replay

WINDOW = Path("tests/data/openb/pods_window.csv")


class WatchedFleet(Fleet):
    """Refuses to give a device twice."""

    def __init__(self, fleet: Fleet) -> None:
        self.__dict__ = fleet.__dict__
        self.held: set[DeviceId] = set()

    def hold(self, holdings: object) -> None:
        assert isinstance(holdings, tuple)
        for holding in holdings:
            assert isinstance(holding, Holding)
            assert holding.device not in self.held
            self.held.add(holding.device)
        super().hold(holdings)

    def release(self, holdings: object) -> None:
        assert isinstance(holdings, tuple)
        self.held.difference_update(holding.device for holding in holdings)
        super().release(holdings)


@pytest.mark.parametrize("policy", ["pack", "spread", "first-fit", "random"])
@pytest.mark.parametrize("machine", ["dgx-h100", "dgx-1v"])
def test_no_device_is_given_twice_and_all_come_back(policy: str, machine: str) -> None:
    """400 real pods on two nodes, where they queue."""
    fleet = WatchedFleet(build_fleet(name_nodes(2, read_machine_devices(machine)), CelEngine()))
    rule = HoldRule(after_s=60.0, hold_patience_s=600.0, spare_patience_s=600.0)
    replay = Replay(build_chooser(policy, fleet, seed=3, rule=rule))
    replay.run(read_arrivals(WINDOW).pods[:400], lambda _arrived: None)
    assert fleet.held == set()
    assert replay.used == 0
    assert len(replay.runs) == 400


def pod(name: str, count: int) -> Arrival:
    return Arrival(name=name, at_s=0.0, run_s=1.0, count=count)


def test_spread_takes_the_emptiest_and_first_fit_the_first() -> None:
    for policy, nodes in (("spread", ["node-00", "node-01", "node-00"]), ("first-fit", ["node-00"] * 3)):
        chooser = build_chooser(policy, build_fleet(name_nodes(2, plain_devices(4, "G")), CelEngine()), seed=0, rule=None)
        assert [chooser.place(pod(f"p{n}", 1), 0.0) for n in range(3)] == nodes


def test_first_fit_goes_by_the_order_of_slices() -> None:
    """Which is the plugin's own order, in which pairs stand together."""
    fleet = build_fleet(name_nodes(1, read_machine_devices("a100-pcie-bridged")), CelEngine())
    chooser = build_chooser("first-fit", fleet, seed=0, rule=None)
    chooser.place(pod("pair", 2), 0.0)
    links = chooser.count_links()[2]
    assert (links.placed, links.ideal, links.nvlink) == (1, 1, 1)


def test_the_hold_rule_wakes_up_when_somebody_starves() -> None:
    fleet = build_fleet(name_nodes(1, plain_devices(4, "G")), CelEngine())
    chooser = build_chooser("pack", fleet, seed=0, rule=HoldRule(after_s=60.0, hold_patience_s=600.0))
    big = pod("big", 4)
    assert chooser.before([big], 0.0) == pytest.approx(60.0, abs=0.1)
    assert chooser.before([big], 60.0) == pytest.approx(600.0, abs=0.1)
    assert chooser.place(pod("small", 1), 0.0) is None
    assert chooser.place(big, 61.0) == "node-00"
