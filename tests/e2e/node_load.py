"""Prepare and unprepare, thousands of times: claims of many pods, on a node with as many GPUs as a mock machine may have."""

from __future__ import annotations

import concurrent.futures
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from driver.pb.dra.v1 import api_pb2
from tests.e2e import calls, objects
from tests.e2e.load import Footprint, Sampler, describe, find_growth, find_leak, read_footprint
from tests.e2e.objects import NAMESPACE
from tests.e2e.stage import Stage, expect

GPUS = 64
_AT_ONCE = 8
"""Calls at a time: a kubelet that starts makes as many as there are pods to start."""
_REST_S = 1.0
_MACHINE = 'name: big\ndriver: "580.159.04"\ncuda: "13.0"\ngpus: [{{board: t4, pci: [{addresses}]}}]\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLoad:
    """What came of it."""

    cycles: int
    claims: int
    took_s: float
    prepare_s: tuple[float, ...]
    samples: tuple[Footprint, ...]
    rests: tuple[Footprint, Footprint]
    """With nothing held and no call running: after a first cycle of every claim, and after all."""

    def describe(self) -> str:
        """In one line."""
        ordered = sorted(self.prepare_s)
        return (
            f"{self.cycles} cycles of {self.claims} claims on {GPUS} GPUs in {self.took_s:.0f} s "
            f"({self.cycles / self.took_s:.0f} a second; prepare median {statistics.median(ordered) * 1000:.0f} ms, "
            f"p99 {ordered[int(0.99 * (len(ordered) - 1))] * 1000:.0f} ms): {describe(self.samples)}; "
            f"at rest {self.rests[0].descriptors} -> {self.rests[1].descriptors} descriptors"
        )


def write_machine(folder: Path) -> Path:
    """A node with 64 GPUs."""
    path = folder / "big.yaml"
    path.write_text(_MACHINE.format(addresses=", ".join(f'"{bus:02x}:00.0"' for bus in range(1, GPUS + 1))))
    return path


def run_node_load(stage: Stage, *, claims: int, cycles: int) -> NodeLoad:
    """Cycles over claims that never hold a device at once with another one.

    Raises:
        NotAsExpected: a call failed, the process grew, or something is left on disk.
    """
    plugin = stage.start_plugin(str(write_machine(stage.layout.home)))
    devices = list(objects.slice_devices(stage.wait_pool(devices=GPUS)))
    made = [stage.create_allocated_claim(f"load-{number}", [devices[number % GPUS]]) for number in range(claims)]
    messages = [calls.claim_message(each) for each in made]
    lanes = [messages[start::_AT_ONCE] for start in range(_AT_ONCE)]  # GPUS is a multiple: no GPU is in two lanes
    socket = plugin.service_socket
    _run_lanes(socket, lanes, 1, Sampler(plugin.pid, claims))
    before = _read_at_rest(plugin.pid)
    sampler = Sampler(plugin.pid, cycles)
    began = time.monotonic()
    prepare_s = _run_lanes(socket, lanes, cycles // _AT_ONCE, sampler)
    took_s = time.monotonic() - began
    left = [*stage.folders.list_records(), *stage.folders.list_cdi_files()]
    expect(not left, f"left are {left[:5]}")
    load = NodeLoad(
        cycles=len(prepare_s),
        claims=claims,
        took_s=took_s,
        prepare_s=prepare_s,
        samples=tuple(sampler.samples),
        rests=(before, _read_at_rest(plugin.pid)),
    )
    growth = ", ".join(each for each in (find_growth(load.samples), find_leak(*load.rests)) if each)
    expect(not growth, f"the plugin grew: {growth}; {load.describe()}")
    for each in made:
        stage.api.delete("ResourceClaim", NAMESPACE, each["metadata"]["name"])
    return load


def _read_at_rest(pid: int) -> Footprint:
    """Once the callers' connections are closed on the other side, too."""
    time.sleep(_REST_S)
    return read_footprint(pid)


def _run_lanes(socket: Path, lanes: Sequence[Sequence[api_pb2.Claim]], cycles: int, sampler: Sampler) -> tuple[float, ...]:
    """All lanes at once; how long each prepare took."""
    with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
        runs = [pool.submit(_run_lane, socket, lane, cycles, sampler) for lane in lanes]
        return tuple(each for run in runs for each in run.result())


def _run_lane(socket: Path, lane: Sequence[api_pb2.Claim], cycles: int, sampler: Sampler) -> list[float]:
    """One caller's: waves of claims of different GPUs, each wave in one call, as the kubelet makes one for each pod."""
    took_s: list[float] = []
    size = GPUS // _AT_ONCE
    waves = [lane[start : start + size] for start in range(0, len(lane), size)]
    while len(took_s) < cycles:
        for wave in waves:
            for claim in wave:
                began = time.monotonic()
                answer = calls.call_prepare(socket, [claim])[claim.uid]
                took_s.append(time.monotonic() - began)
                expect(not answer.error, f"prepare of {claim.name}: {answer.error}")
                expect(len(calls.cdi_ids(answer)) > 0, f"prepare of {claim.name} gave no device")
            errors = calls.call_unprepare(socket, wave)
            expect(not any(errors.values()), f"unprepare: {errors}")
            sampler.note(len(wave))
    return took_s
