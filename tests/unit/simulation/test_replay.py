"""The event loop, with a chooser of ten GPUs in one heap."""

from __future__ import annotations

import math
from collections.abc import Sequence

from driver.cli.simulation.arrivals import Arrival
from driver.cli.simulation.replay import Replay, Run


class Heap:
    """Ten GPUs without borders; remembers when it was asked."""

    def __init__(self, wake_s: float | None = None) -> None:
        self.free = 10
        self.asked: list[tuple[float, str]] = []
        self._wake_s = wake_s

    def before(self, _waiting: Sequence[Arrival], now_s: float) -> float | None:
        return self._wake_s if self._wake_s is not None and now_s < self._wake_s else None

    def kind(self, pod: Arrival, _now_s: float) -> object:
        return pod.count

    def place(self, pod: Arrival, now_s: float) -> str | None:
        self.asked.append((now_s, pod.name))
        if pod.count > self.free:
            return None
        self.free -= pod.count
        return "heap"

    def remove(self, pod: Arrival) -> None:
        self.free += pod.count


def pod(name: str, at_s: float, run_s: float, count: int) -> Arrival:
    return Arrival(name=name, at_s=at_s, run_s=run_s, count=count)


def play(pods: Sequence[Arrival], heap: Heap | None = None) -> tuple[list[tuple[str, float]], Replay]:
    replay = Replay(heap or Heap())
    replay.run(pods, lambda _arrived: None)
    return [(run.pod.name, run.start_s) for run in replay.runs], replay


def test_pods_wait_in_order_and_small_ones_are_filled_in() -> None:
    """The ten-GPU pod waits; what came after it and fits goes on."""
    started, replay = play([pod("a", 0, 100, 6), pod("big", 10, 5, 10), pod("small", 20, 50, 4)])
    assert started == [("a", 0.0), ("small", 20.0), ("big", 100.0)]
    assert replay.runs[2].wait_s == 90.0


def test_who_leaves_makes_room_at_the_same_moment() -> None:
    started, _ = play([pod("a", 0, 10, 10), pod("b", 10, 1, 10)])
    assert started == [("a", 0.0), ("b", 10.0)]


def test_a_pod_that_never_fits_is_never_placed_and_does_not_hang_the_loop() -> None:
    started, replay = play([pod("huge", 0, 1, 11), pod("a", 1, 1, 1)])
    assert started == [("a", 1.0), ("huge", math.inf)]
    assert replay.runs[1] == Run(pod=pod("huge", 0, 1, 11), start_s=math.inf)


def test_a_pod_that_runs_no_time_at_all_leaves_at_once() -> None:
    started, replay = play([pod("a", 5, 0, 10), pod("b", 5, 0, 10)])
    assert started == [("a", 5.0), ("b", 5.0)]
    assert replay.used == 0


def test_where_one_did_not_fit_its_like_are_not_asked_for() -> None:
    heap = Heap()
    play([pod("a", 0, 9, 8), *(pod(f"b{n}", 1, 1, 4) for n in range(5))], heap)
    assert [name for at, name in heap.asked if at == 1] == ["b0"]


def test_the_chooser_is_woken_when_it_wants() -> None:
    heap = Heap(wake_s=50.0)
    _, replay = play([pod("a", 0, 100, 10), pod("b", 1, 1, 10)], heap)
    assert 50.0 in [sample.at_s for sample in replay.samples]


def test_samples_have_what_is_used_and_who_waits() -> None:
    _, replay = play([pod("a", 0, 10, 6), pod("b", 1, 10, 6), pod("c", 2, 10, 6)])
    assert [(each.at_s, each.used, each.waiting) for each in replay.samples] == [
        (0, 6, {}),
        (1, 6, {6: 1}),
        (2, 6, {6: 2}),
        (10, 6, {6: 1}),
        (20, 6, {}),
        (30, 0, {}),
    ]


def test_progress_hears_of_all_arrivals() -> None:
    heard: list[int] = []
    Replay(Heap()).run([pod("a", 0, 1, 1), pod("b", 5, 1, 1)], heard.append)
    assert heard[-1] == 2
