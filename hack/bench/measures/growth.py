"""The same calls with more claims held, and with more callers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hack.bench.calls import Claim, Step, Took
from hack.bench.figure import Figure, Target, percentile
from hack.bench.processes import read_cpu_s
from hack.bench.stage import NODE, Stage

HELD_GPUS = 48
"""Claims beyond these hold no GPU for themselves (admin access), since no machine has so many."""
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
        rows = []
        for number in range(stage.scale.few_pairs + 1):
            claim = free[number % len(free)]
            steps = [stage.floor_step(claim), stage.prepare(claim), stage.prepare(claim), stage.unprepare(claim)]
            rows.append([took.ms for took in stage.in_a_row(steps)])
        floor, prepare, again, unprepare = (list(column) for column in zip(*rows[1:], strict=True))
        figure = Figure(name=f"prepare_{count}_held", unit="ms", values=prepare, floor=floor)
        first_ratio = first_ratio or figure.build_fields()["ratio"]
        detail = {"ratio_to_none_held": figure.build_fields()["ratio"] / first_ratio}
        yield Figure(name=figure.name, unit="ms", values=prepare, floor=floor, detail=detail)
        yield Figure(name=f"prepare_again_{count}_held", unit="ms", values=again, floor=floor)
        yield Figure(name=f"unprepare_{count}_held", unit="ms", values=unprepare, floor=floor)
    stage.in_a_row([stage.unprepare(*held[start : start + PER_CALL]) for start in range(0, len(held), PER_CALL)])
    stage.author.delete_claims([*held, *free])


def measure_callers(stage: Stage) -> Iterator[Figure]:
    """Rounds of as many claims as there are GPUs for, by 1, 8 and 56 callers side by side; the floor's round beside each."""
    claims = stage.make_claims(stage.scale.round_claims)
    for callers in stage.scale.callers:
        floor_rate, rate, unprepare_rate = [], [], []
        floor_ms, ms, cpu_ms = [], [], []
        for number in range(stage.scale.rounds + 1):
            floor = stage.carry_out(_deal([stage.floor_step(claim) for claim in claims], callers))
            cpu_s = read_cpu_s(stage.node.pid)
            prepared = stage.carry_out(_deal([stage.prepare(claim) for claim in claims], callers))
            cpu_s = read_cpu_s(stage.node.pid) - cpu_s
            released = stage.carry_out(_deal([stage.unprepare(claim) for claim in claims], callers))
            if number == 0:
                continue  # threads and connections are made in the first round
            floor_rate.append(_rate(floor))
            rate.append(_rate(prepared))
            cpu_ms.append(cpu_s * 1000 / len(claims))
            unprepare_rate.append(_rate(released))
            floor_ms += sorted(took.ms for calls in floor for took in calls)
            ms += sorted(took.ms for calls in prepared for took in calls)
        one = "caller" if callers == 1 else "callers"
        detail = {"unprepares_a_second": percentile(unprepare_rate, 0.5), "client_processes": min(callers, len(stage.clients))}
        target = Target(of="p50", at_least=100.0) if callers == 8 else None
        yield Figure(name=f"rate_{callers}_{one}", unit="claims/s", values=rate, floor=floor_rate, target=target, detail=detail)
        yield Figure(name=f"prepare_{callers}_{one}", unit="ms", values=ms, floor=floor_ms)
        yield Figure(name=f"prepare_cpu_{callers}_{one}", unit="ms", values=cpu_ms)
    stage.author.delete_claims(claims)


def _make_held(stage: Stage, number: int) -> Claim:
    if number < HELD_GPUS:
        return stage.author.make_claim(NODE, [stage.devices[number]])
    return stage.author.make_claim(NODE, [stage.devices[number % len(stage.devices)]], is_admin=True)


def _deal(steps: Sequence[Step], callers: int) -> list[Sequence[Step]]:
    return [steps[start::callers] for start in range(callers)]


def _rate(callers: Sequence[Sequence[Took]]) -> float:
    """Calls a second between the first call's beginning and the last one's end."""
    calls = [took for each in callers for took in each]
    begun = min(took.ended_at - took.ms / 1000 for took in calls)
    return len(calls) / (max(took.ended_at for took in calls) - begun)
