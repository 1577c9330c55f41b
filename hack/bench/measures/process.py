"""Memory, idle CPU and idle requests of the plugin's process."""

from __future__ import annotations

import time
from collections.abc import Iterator

from hack.bench.figure import Figure, Target
from hack.bench.processes import count_threads, read_cpu_s, read_memory_mb
from hack.bench.stage import Stage

MEMORY = Target(of="p50", at_most=60.0)
IDLE_CPU = Target(of="p50", at_most=0.1)
SETTLE_S = 3.0


def measure_memory_at_start(stage: Stage) -> Iterator[Figure]:
    """Registered, published, nothing prepared yet."""
    yield _memory("memory_after_start", stage)


def measure_idle(stage: Stage) -> Iterator[Figure]:
    """Nothing is asked of the plugin. The share of one CPU, and requests to the API server.

    The floor's process has two gRPC servers too, which look whether they are still wanted five times a second.
    """
    time.sleep(min(SETTLE_S, stage.scale.idle_s))
    stage.cluster.forget()
    started, cpu_s, floor_s = time.monotonic(), read_cpu_s(stage.node.pid), read_cpu_s(stage.floor_pid)
    time.sleep(stage.scale.idle_s)
    cpu_s, floor_s = read_cpu_s(stage.node.pid) - cpu_s, read_cpu_s(stage.floor_pid) - floor_s
    percent = 100 / (time.monotonic() - started)
    seen = stage.cluster.requests()
    yield Figure(
        name="idle_cpu",
        unit="% of a CPU",
        values=[cpu_s * percent],
        floor=[floor_s * percent],
        target=IDLE_CPU,
        detail={"seconds": stage.scale.idle_s},
    )
    if seen is not None:
        asked = sorted(f"{verb} {resource}" for _, verb, resource in seen)
        yield Figure(
            name="idle_requests",
            unit="requests/min",
            values=[len(seen) * 60 / stage.scale.idle_s],
            target=Target(of="p50", at_most=1.0),
            detail={"seconds": stage.scale.idle_s, "requests": asked},
        )


def measure_memory_after_load(stage: Stage) -> Iterator[Figure]:
    """After everything else that this run asked of the plugin."""
    yield _memory("memory_after_load", stage)


def _memory(name: str, stage: Stage) -> Figure:
    memory = read_memory_mb(stage.node.pid)
    detail = {
        "peak": memory["peak"],
        "anonymous": memory["anonymous"],
        "threads": count_threads(stage.node.pid),
        "gpus": stage.node.gpus,
    }
    return Figure(name=name, unit="MB", values=[memory["rss"]], target=MEMORY, detail=detail)
