"""Waits that grow, never agree with each other, and spread a fleet out (the figures of docs/scale.md)."""

from __future__ import annotations

import itertools
import random
from collections import Counter

from driver.kube.backoff import Backoff
from driver.kube.watch import WatchPace

PLUGINS = 5_000


def test_waits_double_up_to_the_cap_and_start_again_after_a_success() -> None:
    backoff = Backoff(base_s=1.0, cap_s=8.0, random=random.Random(1))
    for ceiling in (1.0, 2.0, 4.0, 8.0, 8.0, 8.0):
        assert ceiling / 10 <= backoff.next_wait_s() <= ceiling
    backoff.reset()
    assert backoff.next_wait_s() <= 1.0


def test_the_servers_wait_is_a_floor_and_jitter_is_added() -> None:
    backoff = Backoff(base_s=1.0, cap_s=8.0, random=random.Random(1))
    waits = {backoff.next_wait_s(at_least_s=30.0) for _ in range(5)}
    assert len(waits) == 5
    assert min(waits) > 30.0


def test_failures_without_end_do_not_overflow() -> None:
    backoff = Backoff(base_s=1.0, cap_s=8.0, random=random.Random(1))
    assert all(backoff.next_wait_s() <= 8.0 for _ in range(5_000))


def arrivals(outage_s: float) -> Counter[int]:
    """In which second after its return the server first hears from how many of the plugins that failed until then."""
    found: Counter[int] = Counter()
    for seed in range(PLUGINS):
        backoff = Backoff(random=random.Random(seed))
        now_s = 0.0
        while now_s < outage_s:
            now_s += backoff.next_wait_s()
        found[int(now_s - outage_s)] += 1
    return found


def test_when_a_server_returns_after_two_minutes_the_fleet_comes_spread_out() -> None:
    """Every plugin within 30 s, and never more than 450 in a second: a client without jitter sends all 5,000 in one."""
    found = arrivals(120.0)
    assert max(found.values()) <= 450
    assert max(found) <= 30


def test_watches_of_an_idle_fleet_are_renewed_six_times_a_second() -> None:
    """Sixteen minutes in the long run, at most one in ten minutes each."""
    ranges = WatchPace().open_s
    mean_s = sum(ranges) / 2
    assert PLUGINS / mean_s < 6
    rng = random.Random(1)
    starts: Counter[int] = Counter()
    for _ in range(PLUGINS):
        for at_s in itertools.takewhile(
            lambda s: s < 7200, itertools.accumulate(rng.randint(*ranges) for _ in itertools.count())
        ):
            starts[at_s // 60] += 1
    second_hour = [starts[minute] for minute in range(60, 120)]
    assert max(second_hour) / 60 < 12, "watches opened together drift apart"
