"""The same calls with more claims held, and with more callers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hack.bench.calls import Claim, Step, Took
from hack.bench.figure import Figure, Target, median_ratio, percentile
from hack.bench.measures.rows import Blocks, measure_rows
from hack.bench.processes import read_cpu_s
from hack.bench.stage import NODE, Stage

HELD_GPUS = 48
"""Claims beyond these hold no GPU for themselves (admin access), since no machine has so many."""
EXAMPLE_DRIVERS_RATE = 462.0
EXAMPLE_DRIVERS_BURST_MS = 169.0
"""Kubernetes' Go example driver, on a quiet machine (design, section 9)."""
PER_CALL = 8
"""Claims of one call while the held ones are prepared and released: nothing of it is timed."""


def measure_held(stage: Stage) -> Iterator[Figure]:
    """One caller prepares and unprepares while so many claims are held. All claims held are of this run."""
    held: list[Claim] = []
    free = stage.make_claims(8, first_device=HELD_GPUS)
    first_ratio = 0.0
    for count in stage.scale.held:
        more = [_make_held(stage, number) for number in range(len(held), count)]
        stage.in_a_row([stage.prepare(*more[start : start + PER_CALL]) for start in range(0, len(more), PER_CALL)])
        held += more
        rows = [_build_row(stage, free[number % len(free)]) for number in range(stage.scale.few_pairs + 1)]
        times = measure_rows(stage, rows)
        floor = times["floor"]
        ratio = median_ratio(times["prepare"], floor)
        first_ratio = first_ratio or ratio
        detail = {"ratio_to_none_held": ratio / first_ratio}
        yield Figure(name=f"prepare_{count}_held", unit="ms", values=times["prepare"], floor=floor, detail=detail)
        yield Figure(name=f"prepare_again_{count}_held", unit="ms", values=times["prepare_again"], floor=floor)
        yield Figure(name=f"unprepare_{count}_held", unit="ms", values=times["unprepare"], floor=floor)
    stage.in_a_row([stage.unprepare(*held[start : start + PER_CALL]) for start in range(0, len(held), PER_CALL)])
    stage.author.delete_claims([*held, *free])


@dataclass(kw_only=True)
class _Rounds:
    """What the rounds of one number of callers came to: a value a round, and a time a call."""

    rate: list[float] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    def note(self, callers: Sequence[Sequence[Took]], cpu_s: float) -> None:
        """One round."""
        calls = [took for each in callers for took in each]
        begun = min(took.ended_at - took.ms / 1000 for took in calls)
        self.rate.append(len(calls) / (max(took.ended_at for took in calls) - begun))
        self.ms += sorted(took.ms for took in calls)
        self.cpu_ms.append(cpu_s * 1000 / len(calls))


def measure_callers(stage: Stage) -> Iterator[Figure]:
    """Rounds of as many claims as there are GPUs for, by 1, 8 and 56 callers side by side; the floor's round beside each."""
    claims = stage.make_claims(stage.scale.round_claims)
    for callers in stage.scale.callers:
        floor, floor_get, prepare, unprepare = _Rounds(), _Rounds(), _Rounds(), _Rounds()
        for number in range(stage.scale.rounds + 1):
            rounds = (
                (floor, stage.floor_pid, stage.floor_step),
                (prepare, stage.node.pid, stage.prepare),
                (floor_get, stage.floor_pid, stage.floor_get_step),
                (unprepare, stage.node.pid, stage.unprepare),
            )
            for noted, pid, step in rounds:
                cpu_s = read_cpu_s(pid)
                took = stage.carry_out(_deal([step(claim) for claim in claims], callers))
                if number > 0:  # threads and connections are made in the first round
                    noted.note(took, read_cpu_s(pid) - cpu_s)
        yield from _build_figures(stage, callers, (floor, floor_get, prepare, unprepare))
    stage.author.delete_claims(claims)


def _build_figures(stage: Stage, callers: int, rounds: tuple[_Rounds, _Rounds, _Rounds, _Rounds]) -> Iterator[Figure]:
    floor, floor_get, prepare, unprepare = rounds
    name = f"{callers}_{'caller' if callers == 1 else 'callers'}"
    detail = {
        "floor_with_get": percentile(floor_get.rate, 0.5),
        "unprepares": percentile(unprepare.rate, 0.5),
        "client_processes": min(callers, len(stage.clients)),
    }
    target = Target(of="p50", at_least=EXAMPLE_DRIVERS_RATE) if callers == 8 else None
    yield Figure(name=f"rate_{name}", unit="claims/s", values=prepare.rate, floor=floor.rate, target=target, detail=detail)
    detail = {"floor_with_get": percentile(floor_get.ms, 0.5), "floor_with_get_p95": percentile(floor_get.ms, 0.95)}
    target = Target(of="p95", at_most=EXAMPLE_DRIVERS_BURST_MS) if callers == 56 else None
    yield Figure(name=f"prepare_{name}", unit="ms", values=prepare.ms, floor=floor.ms, target=target, detail=detail)
    detail = {"floor_with_get": percentile(floor_get.cpu_ms, 0.5), "unprepare": percentile(unprepare.cpu_ms, 0.5)}
    yield Figure(name=f"prepare_cpu_{name}", unit="ms", values=prepare.cpu_ms, floor=floor.cpu_ms, detail=detail)


def _build_row(stage: Stage, claim: Claim) -> Blocks:
    own = {"prepare": stage.prepare(claim), "prepare_again": stage.prepare(claim), "unprepare": stage.unprepare(claim)}
    return ({"floor": stage.floor_step(claim)}, own)


def _make_held(stage: Stage, number: int) -> Claim:
    if number < HELD_GPUS:
        return stage.author.make_claim(NODE, [stage.devices[number]])
    return stage.author.make_claim(NODE, [stage.devices[number % len(stage.devices)]], is_admin=True)


def _deal(steps: Sequence[Step], callers: int) -> list[Sequence[Step]]:
    return [steps[start::callers] for start in range(callers)]
