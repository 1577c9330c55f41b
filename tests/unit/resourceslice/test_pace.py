"""When the publisher acts next."""

from __future__ import annotations

import random

import pytest

from driver.resourceslice.pace import Pace, PaceSettings


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pace(clock: Clock) -> Pace:
    return Pace(PaceSettings(burst=3, refill_s=4.0), clock=clock, rng=random.Random(1))


def test_without_a_reason_it_sleeps_for_ever(pace: Pace) -> None:
    assert pace.wait_s() is None


def test_our_own_content_is_acted_on_at_once(pace: Pace) -> None:
    pace.ask_now()
    assert pace.wait_s() == 0


def test_a_flurry_of_changes_is_answered_once_after_a_tenth_of_a_second_at_most(pace: Pace, clock: Clock) -> None:
    pace.ask_soon()
    first = pace.wait_s()
    assert first is not None
    assert 0.05 <= first <= 0.1
    clock.now_s += 0.04
    pace.ask_soon()
    assert pace.wait_s() == pytest.approx(first - 0.04)


def test_a_reason_that_comes_while_it_acts_counts(pace: Pace) -> None:
    pace.ask_now()
    pace.begin()
    assert pace.wait_s() is None
    pace.ask_soon()
    assert pace.wait_s() is not None


def test_each_failure_waits_longer_and_success_starts_afresh(pace: Pace, clock: Clock) -> None:
    ceilings = []
    for _ in range(9):
        wait_s = pace.fail(at_least_s=None)
        assert pace.wait_s() == pytest.approx(wait_s)
        ceilings.append(wait_s)
    assert max(ceilings) <= 30
    pace.succeed()
    assert pace.fail(at_least_s=None) <= 0.5


def test_the_servers_own_wait_is_a_floor_with_jitter_above(pace: Pace) -> None:
    assert 17 < pace.fail(at_least_s=17) <= 17.5


def test_changes_by_others_do_not_shorten_a_wait_after_a_failure(pace: Pace) -> None:
    wait_s = pace.fail(at_least_s=60)
    pace.begin()
    pace.ask_soon()
    assert pace.wait_s() == pytest.approx(wait_s)


def test_new_content_does(pace: Pace) -> None:
    pace.fail(at_least_s=60)
    pace.ask_now()
    assert pace.wait_s() == 0


def test_after_a_burst_the_next_round_waits_for_its_token(pace: Pace, clock: Clock) -> None:
    assert [pace.take_token() for _ in range(4)] == [True, True, True, False]
    assert pace.wait_s() == pytest.approx(4.0)
    clock.now_s += 4.0
    assert pace.wait_s() == 0
    assert [pace.take_token(), pace.take_token()] == [True, False]


def test_tokens_fill_up_to_a_burst_and_no_further(pace: Pace, clock: Clock) -> None:
    clock.now_s += 1e6
    assert [pace.take_token() for _ in range(4)] == [True, True, True, False]
