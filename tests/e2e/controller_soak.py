"""The controller's long count: thousands of pods on fenced and unfenced nodes, two controllers killed at random."""

from __future__ import annotations

import datetime
import random
import statistics
import time
from collections.abc import Sequence

from tests.e2e.churn import Churn, look_at_sides
from tests.e2e.play import SHORT_TIMES, Play, play
from tests.e2e.stage import Stage

_FENCED = {"fenced-1": "dgx-a100", "fenced-2": "hgx-a100-4x2", "fenced-3": "dgx-1v"}
_UNFENCED = {"open-1": "dgx-a100", "open-2": "dgx-h100"}
_CAPACITY = 34
_KILL_EVERY_S = (8.0, 30.0)
_UNBOUND_S = 10


def run_controller_soak(stage: Stage, pods: int, seed: int) -> str:
    """Run ``pods`` pods; the report as Markdown.

    Raises:
        NotAsExpected: something is lost, stuck, left over or given twice.
    """
    began = time.monotonic()
    with play(stage, _FENCED) as on:
        stage.fleet.add(_UNFENCED, is_fenced=False)
        for _ in range(2):
            on.new_controller(options=(*SHORT_TIMES, "--unbound-s", str(_UNBOUND_S))).start()
        on.leader()
        churn = Churn(
            play=on,
            wanted=pods,
            capacity=_CAPACITY,
            dice=random.Random(seed),
            is_mixed=True,
            kill_every_s=_KILL_EVERY_S,
        )
        sides = look_at_sides(churn, frozenset(_FENCED))
        churn.run()
        on.leader()
        on.finish()
        return build_report(on, churn, dict(sides), took_s=time.monotonic() - began, seed=seed)


def build_report(on: Play, churn: Churn, sides: dict[str, int], *, took_s: float, seed: int) -> str:
    """The run in words and numbers."""
    today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(churn.kinds.items()))
    rows = {
        "pods created, bound (or deleted before) and gone": f"{churn.ended} of {churn.wanted}",
        "kinds": kinds,
        "allocations seen by the watcher": str(on.watch.allocations),
        "devices in two claims, at any moment": "0",
        "allocations seen by side, at random moments": ", ".join(f"{side} {count}" for side, count in sorted(sides.items())),
        "allocations by the wrong side": "0",
        "kills of a controller": str(churn.kills),
        "pods stuck, allocations left at the end": "0",
        "from created to bound, s": _spread(churn.bound_s),
        "whole run": f"{took_s / 60:.1f} min",
    }
    first_s, last_s = _KILL_EVERY_S
    machines = ", ".join(f"{name} ({machine})" for name, machine in {**_FENCED, **_UNFENCED}.items())
    return (
        "# Soak of the controller half\n\n"
        f"{today}; `make e2e-soak` (`hack/devcluster/e2e.sh --soak controller`): real API server, kube-scheduler and\n"
        f"kube-controller-manager, Kubernetes {on.stage.layout.kube_version}; nodes of slices alone: {machines}.\n"
        "Pods with 1 to 8 GPUs, named and templated claims, one and two in a pod, all policies, for either side or both, come\n"
        f"and go at random, some before they are bound. Two controllers; one is killed with SIGKILL every {first_s:.0f} to"
        f" {last_s:.0f} s\nand started again within two. Seed {seed}.\n\n"
        "| what | result |\n| --- | --- |\n" + "".join(f"| {what} | {result} |\n" for what, result in rows.items()) + "\n"
        "Any other number in the lines with 0 ends the run as failed, and writes no report. The times include the wait for a\n"
        "new leader after a kill, and for GPUs that others have.\n"
    )


def _spread(values: Sequence[float]) -> str:
    ordered = sorted(values)
    p95 = ordered[int(0.95 * (len(ordered) - 1))]
    return f"median {statistics.median(ordered):.1f}, p95 {p95:.1f}, longest {ordered[-1]:.1f}"
