"""What the gauges say of a fleet."""

from __future__ import annotations

from fractions import Fraction

from driver.allocator.device_node import DeviceId
from driver.allocator.fleet import Holding
from driver.allocator.taints import Fence
from driver.api.resource_v1 import Counter, CounterConsumption, CounterSet, Device, Taint
from driver.controller.books.occupancy import Occupancy, OccupancyCounter
from tests.unit.allocator.cases import DRIVER, WordEngine, device, fleet_of, gpus, hold, pool

FENCE = Taint(key="gpu.nvidia.com/allocator", value="controller", effect="NoSchedule")
SICK = Taint(key="gpu.nvidia.com/xid", effect="NoSchedule")


def island(start: int, count: int, name: str, *taints: Taint) -> tuple[Device, ...]:
    numbers = range(start, start + count)
    return tuple(device(f"gpu-{number}", taints=(FENCE, *taints), type="gpu", nvlinkIsland=name) for number in numbers)


def fenced() -> Fence:
    return Fence(key="gpu.nvidia.com/allocator", value="controller")


def test_free_allocated_and_the_largest_free_island() -> None:
    fleet = fleet_of({"a": (*island(0, 4, "x"), *island(4, 4, "y")), "b": island(0, 4, "z")}, fenced())
    hold(fleet, "a", [0, 4, 5])
    hold(fleet, "b", [0, 1])
    assert OccupancyCounter().count(fleet) == Occupancy(free=7, allocated=5, devices=5, largest_free_island=3, nodes=2)


def test_a_sick_gpu_is_unavailable_until_somebody_has_it() -> None:
    fleet = fleet_of({"a": (*island(0, 2, "x"), *island(2, 2, "x", SICK))}, fenced())
    hold(fleet, "a", [3])
    assert OccupancyCounter().count(fleet) == Occupancy(
        free=2, allocated=1, unavailable=1, devices=1, largest_free_island=2, nodes=1
    )


def test_unfenced_gpus_are_counted_apart() -> None:
    fleet = fleet_of({"a": gpus(4, type="gpu"), "b": island(0, 2, "x")}, fenced())
    hold(fleet, "a", [0])
    assert OccupancyCounter().count(fleet) == Occupancy(free=2, unfenced=4, largest_free_island=2, nodes=1)


def test_gpus_that_name_no_island_are_islands_of_their_own() -> None:
    fleet = fleet_of({"a": gpus(3, type="gpu")})
    assert OccupancyCounter().count(fleet).largest_free_island == 1


def test_a_gpu_of_which_a_partition_is_held_is_allocated() -> None:
    counters = [CounterSet(name=f"set-{number}", counters={"slices": Counter(value="7")}) for number in range(2)]
    devices = []
    for number in range(2):
        for kind, slices in (("gpu", "7"), ("mig", "1")):
            draw = CounterConsumption(counter_set=f"set-{number}", counters={"slices": Counter(value=slices)})
            made = device(f"{kind}-{number}", type=kind)
            devices.append(Device(name=made.name, attributes=made.attributes, consumes_counters=(draw,)))
    fleet = fleet_of({})
    fleet.set_node("a", [pool("a", devices, counters)])
    fleet.hold([Holding(device=DeviceId(DRIVER, "a", "mig-1"))])
    assert OccupancyCounter().count(fleet) == Occupancy(free=1, allocated=1, devices=1, largest_free_island=1, nodes=1)


def test_a_shared_gpu_is_allocated_once() -> None:
    fleet = fleet_of({"a": gpus(2, type="gpu")})
    shares = [
        Holding(device=DeviceId(DRIVER, "a", "gpu-0"), share_id=share, consumed=(("memory", Fraction(1)),)) for share in "xy"
    ]
    fleet.hold(shares)
    assert OccupancyCounter().count(fleet) == Occupancy(free=1, allocated=1, devices=1, largest_free_island=1, nodes=1)


def test_a_second_count_follows_what_changed() -> None:
    """And says what a fresh counter would."""
    fleet, counter = fleet_of({"a": island(0, 4, "x"), "b": island(0, 2, "z")}, fenced()), OccupancyCounter()
    assert counter.count(fleet).free == 6
    hold(fleet, "a", [0])
    assert counter.count(fleet) == OccupancyCounter().count(fleet)
    fleet.set_node("b", [])
    assert counter.count(fleet) == OccupancyCounter().count(fleet)
    fleet.set_node("a", [pool("a", island(0, 8, "x"))])
    assert counter.count(fleet) == OccupancyCounter().count(fleet)
    assert WordEngine().asked == 0


def test_an_empty_fleet() -> None:
    assert OccupancyCounter().count(fleet_of({})) == Occupancy()
