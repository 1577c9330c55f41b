"""Turns: how many compute at once, who waits, and that nobody waits long."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from driver.claims.turns import Turns


def run(act: threading.Thread) -> None:
    act.start()
    act.join(20)
    assert not act.is_alive()


def is_free(turns: Turns) -> bool:
    """Whether another thread would get a turn now."""
    found: list[bool] = []

    def look() -> None:
        with turns.taken():
            found.append(turns._mine.has_turn)

    run(threading.Thread(target=look))
    return found[0]


def test_so_many_compute_at_once_and_no_more() -> None:
    turns = Turns(most=1, patience_s=0.01)
    with turns.taken():
        assert not is_free(turns)
    assert is_free(turns)


def test_who_waits_gives_the_turn_up_and_takes_it_again() -> None:
    turns = Turns(most=1, patience_s=0.01)
    with turns.taken():
        with turns.given_up():
            assert is_free(turns)
        assert not is_free(turns)


def test_who_gets_no_turn_soon_goes_on_without_and_gives_none_back() -> None:
    """Two threads are stuck in the kernel: the third works all the same, and there are no more turns after than before."""
    turns = Turns(most=1, patience_s=0.01)
    stuck, end = threading.Event(), threading.Event()

    def hang() -> None:
        with turns.taken():
            stuck.set()
            end.wait(20)

    thread = threading.Thread(target=hang)
    thread.start()
    assert stuck.wait(20)
    with turns.taken(), turns.given_up():
        assert not is_free(turns)
    end.set()
    thread.join(20)
    with turns.taken():
        assert not is_free(turns)
    assert is_free(turns)


def test_a_wait_outside_of_a_turn_is_only_a_wait() -> None:
    turns = Turns(most=1)
    with turns.given_up():
        assert is_free(turns)


def test_an_error_gives_the_turn_back() -> None:
    turns = Turns(most=1, patience_s=0.01)
    stack = ExitStack()
    stack.enter_context(turns.taken())
    stack.enter_context(turns.given_up())
    error = ValueError("inside")
    assert not stack.__exit__(ValueError, error, None)
    assert is_free(turns)
