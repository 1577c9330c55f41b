"""Signals by the hundred: each is heeded, none hangs the process."""

from __future__ import annotations

import signal
import time

import pytest

from hack.fuzz.node import FuzzNode, fuzz_node


def storm(node: FuzzNode, number: signal.Signals, times: int) -> None:
    for _ in range(times):
        node.send(number)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_storm_of_signals_ends_in_a_clean_exit(number: signal.Signals) -> None:
    """A handler that interrupts another one must not wait for a lock that its own thread holds: no SIGTERM is heeded then."""
    with fuzz_node() as node:
        if number is signal.SIGHUP:
            for _ in range(3):
                storm(node, number, 200)
                time.sleep(0.2)
            node.check("after a storm of SIGHUP")
        else:
            storm(node, number, 50)
        assert node.end() == 0
