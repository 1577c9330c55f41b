"""The controller with a large fleet while pods come and go: it must not grow."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass

from tests.e2e.churn import Churn
from tests.e2e.load import Footprint, Sampler, describe, find_growth
from tests.e2e.play import play
from tests.e2e.stage import Stage, expect

_MACHINE = "dgx-a100"
_CAPACITY = 96
"""GPUs that pods want at most at a time: enough that several are decided at once."""
_STEPS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerLoad:
    """What came of it."""

    nodes: int
    pods: int
    took_s: float
    bound_s: tuple[float, ...]
    samples: tuple[Footprint, ...]

    def describe(self) -> str:
        """In one line."""
        ordered = sorted(self.bound_s)
        return (
            f"{self.pods} pods on {self.nodes} nodes with {8 * self.nodes} GPUs in {self.took_s:.0f} s "
            f"(bound after median {statistics.median(ordered):.1f} s, p99 {ordered[int(0.99 * (len(ordered) - 1))]:.1f} s): "
            f"{describe(self.samples)}"
        )


def run_controller_load(stage: Stage, *, nodes: int, seconds: float, seed: int) -> ControllerLoad:
    """So many fenced nodes, and pods that come and go for so long.

    Raises:
        NotAsExpected: the process grew, a pod is stuck, or a device was in two claims.
    """
    with play(stage, {f"load-{number:04}": _MACHINE for number in range(nodes)}) as on:
        controller = on.start_controller(options=("--log-level", "info"))
        began = time.monotonic()
        sampler = Sampler(controller.pid, _STEPS)
        noted = 0

        def note() -> None:
            nonlocal noted
            reached = min(_STEPS, int((time.monotonic() - began) / seconds * _STEPS))
            sampler.note(reached - noted)
            noted = reached

        churn = Churn(play=on, wanted=0, capacity=_CAPACITY, dice=random.Random(seed), until=began + seconds, on_look=note)
        churn.run()
        note()
        load = ControllerLoad(
            nodes=nodes,
            pods=churn.ended,
            took_s=time.monotonic() - began,
            bound_s=tuple(churn.bound_s),
            samples=tuple(sampler.samples),
        )
        growth = find_growth(load.samples)
        expect(not growth, f"the controller grew: {growth}; {load.describe()}")
        return load
