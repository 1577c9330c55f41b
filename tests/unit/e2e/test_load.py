"""When a process counts as grown."""

from __future__ import annotations

import os

import pytest

from tests.e2e.load import SAMPLES, Footprint, Sampler, describe, find_growth, find_leak, read_footprint

MIB = 1 << 20


def run(rss_mib: list[float], threads: int = 10, descriptors: int = 20) -> list[Footprint]:
    return [Footprint(rss_bytes=int(each * MIB), threads=threads, descriptors=descriptors) for each in rss_mib]


def test_a_process_that_warms_up_and_stays_is_flat() -> None:
    samples = run([20, 35, *[40.0] * (SAMPLES - 2)])
    assert find_growth(samples) == ""
    assert describe(samples) == "41.9 -> 41.9 MB, 10 -> 10 threads, 20 -> 20 descriptors"


def test_one_high_sample_is_no_growth() -> None:
    """The median is compared: a call that runs while it is looked takes memory of its own."""
    assert find_growth(run([*[40.0] * (SAMPLES - 1), 90.0])) == ""


@pytest.mark.parametrize("bytes_each", [700, 5000])
def test_a_leak_of_some_hundred_bytes_a_cycle_is_seen_over_ten_thousand(bytes_each: int) -> None:
    samples = run([40 + bytes_each * 10_000 * number / SAMPLES / MIB for number in range(1, SAMPLES + 1)])
    assert find_growth(samples).startswith("memory from ")


def test_a_large_process_may_move_by_its_share() -> None:
    half = SAMPLES // 2
    assert find_growth(run([400.0] * half + [415.0] * half)) == ""
    assert find_growth(run([400.0] * half + [425.0] * half)).startswith("memory")


def test_threads_and_descriptors_are_counted_too() -> None:
    half = SAMPLES // 2
    grown = run([40] * half) + run([40] * half, threads=15, descriptors=45)
    assert find_growth(grown) == "threads from 10 to 15, file descriptors from 20 to 45"


def test_a_descriptor_in_a_thousand_cycles_is_a_leak() -> None:
    """At rest, where no call has any."""
    (before, after) = run([40], descriptors=20) + run([40], descriptors=30)
    assert find_leak(before, after) == "file descriptors from 20 to 30 at rest"
    assert find_leak(before, before) == ""


def test_the_sampler_takes_its_samples_evenly_and_no_more() -> None:
    sampler = Sampler(os.getpid(), 200)
    for _ in range(300):
        sampler.note()
    assert len(sampler.samples) == SAMPLES
    few = Sampler(os.getpid(), 5)
    few.note(5)
    assert len(few.samples) == SAMPLES


def test_a_footprint_is_of_the_process() -> None:
    seen = read_footprint(os.getpid())
    assert seen.rss_bytes > 5 * MIB
    assert seen.threads >= 1
    assert seen.descriptors >= 3
