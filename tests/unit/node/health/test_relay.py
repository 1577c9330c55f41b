"""Changes are passed on soon, one by one, and as often as it takes."""

from __future__ import annotations

import threading

import pytest

from driver.node.health.relay import HealthRelay


class Published:
    """What publishes; ``answers`` come one after the other, then True."""

    def __init__(self, *answers: bool | Exception) -> None:
        self.answers = list(answers)
        self.calls = threading.Semaphore(0)
        self.count = 0

    def __call__(self) -> bool:
        self.count += 1
        answer = self.answers.pop(0) if self.answers else True
        self.calls.release()
        if isinstance(answer, Exception):
            raise answer
        return answer


def run(published: Published, *, rest_s: float = 0.0) -> HealthRelay:
    relay = HealthRelay(published, rest_s=rest_s, again_s=0.0)
    relay.start()
    return relay


def test_nothing_is_published_without_a_change() -> None:
    published = Published()
    relay = run(published)
    assert not published.calls.acquire(timeout=0.05)
    relay.stop()


def test_a_change_is_published_once() -> None:
    published = Published()
    relay = run(published)
    relay.wake()
    assert published.calls.acquire(timeout=10)
    assert not published.calls.acquire(timeout=0.05)
    relay.stop()


@pytest.mark.parametrize("answer", [False, RuntimeError("boom")], ids=["not-done", "as-nobody-expected"])
def test_what_is_not_done_is_tried_again(answer: bool | Exception) -> None:
    published = Published(answer, answer)
    relay = run(published)
    relay.wake()
    for _ in range(3):
        assert published.calls.acquire(timeout=10)
    assert not published.calls.acquire(timeout=0.05)
    relay.stop()


def test_changes_in_a_row_are_published_together() -> None:
    """A GPU that flaps a thousand times a second."""
    published = Published()
    relay = run(published, rest_s=30.0)
    relay.wake()
    assert published.calls.acquire(timeout=10)
    for _ in range(1000):
        relay.wake()
    assert not published.calls.acquire(timeout=0.05)
    relay.stop()
    assert published.count == 1
