"""kube-scheduler takes the first device that fits: what the order of MIG devices makes of that."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence

import pytest

from driver.api.resource_v1 import Device
from tests.unit.resourceslice.mig_pools import Scheduler, built, divisible, profile_of

H = "h100-80gb"


def test_whole_gpus_come_first_and_parts_are_made_from_the_other_end() -> None:
    found = built([divisible(0, H), divisible(1, H)])
    names = [device.name for device in found.devices]
    assert names[:2] == ["gpu-0000-10-00-0", "gpu-0000-11-00-0"]
    assert names[2].startswith("gpu-0000-11-00-0-mig-1g")
    assert names[-1].startswith("gpu-0000-10-00-0-mig-7g")


FIRST_FITS = {
    "a 1g leaves room for a 4g": (["1g.10gb"], "4g.40gb"),
    "three 1g leave room for a 4g": (["1g.10gb"] * 3, "4g.40gb"),
    "a 2g leaves room for a 4g": (["2g.20gb"], "4g.40gb"),
    "a 2g and a 1g leave room for a 4g": (["2g.20gb", "1g.10gb"], "4g.40gb"),
    "a 3g leaves room for a 4g": (["3g.40gb"], "4g.40gb"),
    "a 1g and a 3g leave room for a 2g": (["1g.10gb", "3g.40gb"], "2g.20gb"),
    "a 1g of double memory leaves room for a 4g": (["1g.20gb"], "4g.40gb"),
    "seven 1g fit": (["1g.10gb"] * 6, "1g.10gb"),
}


@pytest.mark.parametrize(("wishes", "last"), FIRST_FITS.values(), ids=FIRST_FITS.keys())
def test_first_fit_strands_little_on_one_gpu(wishes: list[str], last: str) -> None:
    found = built([divisible(0, H)])
    scheduler = Scheduler(found.devices, found.counter_sets)
    assert all(scheduler.allocate(wish) is not None for wish in (*wishes, last))


def test_first_fit_keeps_whole_gpus_whole() -> None:
    found = built([divisible(position, H) for position in range(4)])
    scheduler = Scheduler(found.devices, found.counter_sets)
    assert all(scheduler.allocate(wish) is not None for wish in ("1g.10gb", "2g.20gb", "3g.40gb"))
    assert [scheduler.allocate("whole") is not None for _ in range(4)] == [True, True, True, False]


def test_first_fit_loses_a_point_less_than_in_the_order_of_starts() -> None:
    """MIGBench's loss setting with the real geometry (topology.md B6): what finds no place goes away."""
    ours = [
        device for device in built([divisible(position, H) for position in range(8)]).devices if "profile" in device.attributes
    ]
    by_start = sorted(ours, key=lambda device: (device.name[:16], device.name))
    lost = [sum(measure_loss(order, seed) for seed in range(4)) / 4 for order in (ours, by_start)]
    assert lost[1] - lost[0] >= 0.005


def measure_loss(devices: Sequence[Device], seed: int) -> float:
    """The part of the compute slices asked for that finds no place, at nine tenths of what the GPUs have."""
    rng = random.Random(seed)
    wishes = {"1g.10gb": (8, 1), "2g.20gb": (5, 2), "3g.40gb": (4, 3), "4g.40gb": (3, 4), "7g.80gb": (1, 7)}
    often = [weight for weight, _ in wishes.values()]
    rate = 0.9 * 8 * 7 * sum(often) / sum(weight * slices for weight, slices in wishes.values())
    places = {wish: [_place_of(device) for device in devices if profile_of(device) == wish] for wish in wishes}
    taken: dict[str, int] = {}
    ends: list[tuple[float, str, int]] = []
    now, lost, asked = 0.0, 0, 0
    for _ in range(5000):
        now += rng.expovariate(rate)
        while ends and ends[0][0] <= now:
            _, gpu, mask = heapq.heappop(ends)
            taken[gpu] &= ~mask
        wish = rng.choices(list(wishes), often)[0]
        length = rng.expovariate(1)
        asked += wishes[wish][1]
        place = next(((gpu, mask) for gpu, mask in places[wish] if not taken.get(gpu, 0) & mask), None)
        if place is None:
            lost += wishes[wish][1]
            continue
        taken[place[0]] = taken.get(place[0], 0) | place[1]
        heapq.heappush(ends, (now + length, *place))
    return lost / asked


def _place_of(device: Device) -> tuple[str, int]:
    (draws,) = device.consumes_counters
    slices = [int(name.rpartition("-")[2]) for name in draws.counters if name.startswith("memory-slice-")]
    return draws.counter_set, sum(1 << number for number in slices)
