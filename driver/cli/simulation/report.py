"""What a simulation says, in the words of ``gpu-dra simulate -o json``. Names are stable: fields are added, none changes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from driver.cli.simulation.never import NeverPlaced
from driver.cli.simulation.replay import Run, Sample

FORMAT = "gpu-dra.io/simulate/v1"
_HOUR_S = 3600.0


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """How long pods of one size waited. A pod that was never placed counts as one that waited for over an hour."""

    count: int
    mean_s: float
    """Of those that were placed."""
    p95_s: float
    max_s: float
    over_1h: int
    never_placed: int


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """How good the sets are that pods of one size got."""

    placed: int
    ideal: int
    """Sets than which the machine has no better of that size."""
    nvlink: int
    """Sets on a ring that is all NVLink."""


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """What was placed of what was asked for."""

    pods: int
    of_pods: int
    gpus: int
    of_gpus: int
    percent_of_gpus: float


class GpuHours(msgspec.Struct, frozen=True, kw_only=True):
    """From the first arrival to the last event."""

    capacity: float
    used: float
    percent_used: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is shown. ``waits``, ``links`` and ``pending_while_free_h`` are by count of GPUs, as text."""

    format: str
    nodes: int
    gpus: int
    machine: str
    policy: str
    arrivals: str
    skipped_pods: int
    """Pods of the list that ask for no whole GPU."""
    placed: Placed
    waits: Mapping[str, Waits]
    pending_while_free_h: Mapping[str, float]
    """Hours in which a pod of the size waited while as many GPUs were free."""
    links: Mapping[str, Links]
    gpu_hours: GpuHours
    duration_s: float
    never_placed: tuple[NeverPlaced, ...] = ()


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What was simulated."""

    nodes: int
    gpus: int
    machine: str
    policy: str
    arrivals: str
    skipped_pods: int


def build_report(
    setting: Setting,
    runs: Sequence[Run],
    samples: Sequence[Sample],
    links: Mapping[int, Links],
    never_placed: tuple[NeverPlaced, ...] = (),
) -> Report:
    """The report of a replay that is over."""
    placed = [run for run in runs if math.isfinite(run.start_s)]
    asked = sum(run.pod.count for run in runs)
    given = sum(run.pod.count for run in placed)
    return Report(
        format=FORMAT,
        nodes=setting.nodes,
        gpus=setting.gpus,
        machine=setting.machine,
        policy=setting.policy,
        arrivals=setting.arrivals,
        skipped_pods=setting.skipped_pods,
        placed=Placed(pods=len(placed), of_pods=len(runs), gpus=given, of_gpus=asked, percent_of_gpus=_percent(given, asked)),
        waits={str(size): _build_waits(group) for size, group in sorted(_by_size(runs).items())},
        pending_while_free_h=_count_pending(samples, setting.gpus),
        links={str(size): each for size, each in sorted(links.items())},
        gpu_hours=_build_hours(samples, setting.gpus),
        duration_s=samples[-1].at_s - samples[0].at_s if samples else 0.0,
        never_placed=never_placed,
    )


def _by_size(runs: Sequence[Run]) -> dict[int, list[Run]]:
    groups: dict[int, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.pod.count, []).append(run)
    return groups


def _build_waits(runs: Sequence[Run]) -> Waits:
    waits = sorted(run.wait_s for run in runs if math.isfinite(run.wait_s))
    never = len(runs) - len(waits)
    return Waits(
        count=len(runs),
        mean_s=round(sum(waits) / len(waits), 1) if waits else 0.0,
        p95_s=round(waits[math.ceil(0.95 * len(waits)) - 1], 1) if waits else 0.0,
        max_s=round(waits[-1], 1) if waits else 0.0,
        over_1h=sum(wait > _HOUR_S for wait in waits) + never,
        never_placed=never,
    )


def _intervals(samples: Sequence[Sample]) -> Iterator[tuple[Sample, float]]:
    for one, after in pairwise(samples):
        yield one, after.at_s - one.at_s


def _count_pending(samples: Sequence[Sample], gpus: int) -> dict[str, float]:
    seconds: dict[int, float] = {}
    for sample, lasts_s in _intervals(samples):
        for size in sample.waiting:
            if size <= gpus - sample.used:
                seconds[size] = seconds.get(size, 0.0) + lasts_s
    return {str(size): round(each / _HOUR_S, 1) for size, each in sorted(seconds.items())}


def _build_hours(samples: Sequence[Sample], gpus: int) -> GpuHours:
    used = sum(sample.used * lasts_s for sample, lasts_s in _intervals(samples)) / _HOUR_S
    capacity = gpus * (samples[-1].at_s - samples[0].at_s) / _HOUR_S if samples else 0.0
    return GpuHours(capacity=round(capacity, 1), used=round(used, 1), percent_used=_percent(used, capacity))


def _percent(part: float, whole: float) -> float:
    return round(100 * part / whole, 2) if whole else 0.0
