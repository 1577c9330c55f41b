"""Starts, restarts, slices that somebody deleted, a machine that changed: an 8-GPU node of its own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from driver.nvml.mock.faults import GpuLost
from driver.nvml.mock.machine import write_faults
from hack.bench.cluster import WRITES
from hack.bench.figure import Figure, Target
from hack.bench.processes import Child, python, read_cpu_s, read_memory_mb, wait_until
from hack.bench.stage import NODE, PluginNode, Stage

MACHINE = "dgx-h100"
GPUS = 8
BACK = Target(of="p50", at_most=2.0)
READY = Target(of="p50", at_most=1.0)


@dataclass(kw_only=True)
class _Starts:
    """What several starts came to."""

    floor_s: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    first_slice_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    again_s: list[float] = field(default_factory=list)
    stop_s: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    writes_again: list[float] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    asked_again: list[str] = field(default_factory=list)

    def note_first(self, stage: Stage, node: PluginNode) -> None:
        """A start on a node that had nothing."""
        stage.cluster.forget()
        self.first_s.append(node.start())
        self.cpu_s.append(read_cpu_s(node.pid))
        time.sleep(stage.scale.quiet_s)
        self.memory_mb.append(read_memory_mb(node.pid)["rss"])
        seen = stage.cluster.requests() or []
        self.asked = _words(seen)
        self.writes.append(count_writes(seen))
        creates = [at - node.started_at for at, verb, kind in seen if (verb, kind) == ("create", "resourceslices")]
        self.first_slice_s += creates[:1]
        self.stop_s.append(node.stop())

    def note_again(self, stage: Stage, node: PluginNode) -> None:
        """A start over what the first one left."""
        stage.cluster.forget()
        self.again_s.append(node.start())
        time.sleep(stage.scale.quiet_s)
        seen = stage.cluster.requests() or []
        self.asked_again = _words(seen)
        self.writes_again.append(count_writes(seen))


def measure_starts(stage: Stage) -> Iterator[Figure]:
    """From the process's start to registered and published: the first time, and over what was there.

    The floor is a bare gRPC server of Python's that starts in the same minute.
    """
    starts = _Starts()
    for number in range(stage.scale.starts):
        starts.floor_s.append(_start_floor(stage, number))
        stage.cluster.delete_slices(NODE)
        node = PluginNode(stage.folder / f"s{number}", stage.cluster, MACHINE, GPUS)
        try:
            starts.note_first(stage, node)
            starts.note_again(stage, node)
        finally:
            node.end()
    yield Figure(name="start", unit="s", values=starts.first_s, floor=starts.floor_s, target=READY)
    yield Figure(name="restart", unit="s", values=starts.again_s, floor=starts.floor_s, target=READY)
    yield Figure(name="start_cpu", unit="s", values=starts.cpu_s)
    yield Figure(name="stop", unit="s", values=starts.stop_s)
    yield Figure(name="memory_8_gpus", unit="MB", values=starts.memory_mb, target=Target(of="p50", at_most=60.0))
    if starts.first_slice_s:
        none = Target(of="p95", at_most=0.0)
        again = {"requests": starts.asked_again}
        yield Figure(name="start_to_first_slice", unit="s", values=starts.first_slice_s)
        yield Figure(name="writes_at_start", unit="requests", values=starts.writes, detail={"requests": starts.asked})
        yield Figure(name="writes_at_restart", unit="requests", values=starts.writes_again, target=none, detail=again)


def measure_slices(stage: Stage) -> Iterator[Figure]:
    """Slices deleted by somebody else come back; a GPU that is lost, and found again, is said after a signal."""
    stage.cluster.delete_slices(NODE)
    node = PluginNode(stage.folder / "d", stage.cluster, MACHINE, GPUS)
    back, changed, sizes, counts = [], [], [], []
    try:
        node.start()
        for _ in range(stage.scale.starts):
            slices = stage.cluster.slices(NODE)
            counts.append(float(len(slices)))
            sizes.append(sum(len(msgspec.json.encode(each)) for each in slices) / 1000)
            started = time.monotonic()
            stage.cluster.delete_slices(NODE)
            back.append(wait_until(lambda: len(node.devices()) == GPUS, "the slices to come back") - started)
        for _ in range(stage.scale.changes):
            changed += [_time_change(node, is_lost=True), _time_change(node, is_lost=False)]
    finally:
        node.end()
    yield Figure(name="deleted_slices_back", unit="s", values=back, target=BACK)
    yield Figure(name="change_published", unit="s", values=changed)
    yield Figure(name="slices_8_gpus", unit="kB", values=sizes, detail={"slices": counts[0]})


def _time_change(node: PluginNode, *, is_lost: bool) -> float:
    write_faults(node.mock_state, (GpuLost(gpu=3),) if is_lost else ())
    started = time.monotonic()
    os.kill(node.pid, signal.SIGHUP)
    wanted = GPUS - is_lost  # no claim was given the GPU, so it leaves the slices; else it would be tainted
    return wait_until(lambda: len(node.devices()) == wanted, "the change to be published") - started


def _start_floor(stage: Stage, number: int) -> float:
    folder: Path = stage.folder / f"f{number}"
    folder.mkdir()
    child = Child(python("hack.bench.floor", str(folder)), folder / "log")
    try:
        return wait_until((folder / "floor.sock").exists, "a floor to serve") - child.started_at
    finally:
        child.end()


def count_writes(seen: list[tuple[float, str, str]]) -> float:
    """How many of these requests change something."""
    return float(sum(1 for _, verb, _ in seen if verb in WRITES))


def _words(seen: list[tuple[float, str, str]]) -> list[str]:
    return [f"{verb} {resource}" for _, verb, resource in seen]
