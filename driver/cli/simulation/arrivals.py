"""Lists of pods that arrive: CSV of the openb form, or our own YAML.

openb is Alibaba's GPU cluster trace of 2023 in the form of the FGD simulator (hkust-adsl/kubernetes-scheduler-simulator). Pods
that ask for a share of a GPU, or for none, are counted and skipped: a claim is for whole GPUs.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from driver.api.topology_policy import Mode, Packing, Policy, Scope
from driver.errors import SettingsInvalid

DEFAULT_POLICY = Policy()
_COLUMNS = ("name", "num_gpu")
_TIMES = ("creation_time", "deletion_time")
_WHOLE_GPU_MILLI = 1000
_MOST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A pod with one claim."""

    name: str
    at_s: float
    run_s: float
    """How long it runs once it is placed; infinite where it never ends."""
    count: int
    policy: Policy = DEFAULT_POLICY
    match_attribute: str | None = None
    selector: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The list in order of arrival."""

    pods: tuple[Arrival, ...]
    skipped: int = 0
    """Pods of the list that ask for no whole GPU."""


class _Pod(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    at_s: float = msgspec.field(name="atSeconds", default=0.0)
    run_s: float | None = msgspec.field(name="runSeconds", default=None)
    count: int
    name: str = ""
    times: int = 1
    every_s: float = msgspec.field(name="everySeconds", default=0.0)
    scope: Scope = Scope.NVLINK
    mode: Mode = Mode.PREFERRED
    packing: Packing = Packing.PACK
    match_attribute: str | None = None
    selector: str | None = None


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pods: tuple[_Pod, ...]


def read_arrivals(path: Path) -> Arrivals:
    """The arrivals in a file: YAML where its name says so, else CSV.

    Raises:
        SettingsInvalid: it cannot be read, or is not such a list; the text has the line or the path in it.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES)
    except OSError as err:
        raise SettingsInvalid(f"--arrivals {path}: cannot be read: {err.strerror}") from err
    if path.suffix in (".yaml", ".yml"):
        return parse_yaml(data, str(path))
    return parse_csv(data, str(path))


def parse_csv(data: bytes, source: str) -> Arrivals:
    """The whole-GPU pods of a CSV list. Without times, pods arrive one after the other and never end.

    Raises:
        SettingsInvalid: a column is missing, or a number is none.
    """
    reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig", errors="replace")))
    missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise SettingsInvalid(f"--arrivals {source}: no column {missing[0]}; a CSV list has at least {', '.join(_COLUMNS)}")
    has_times = all(name in (reader.fieldnames or ()) for name in _TIMES)
    pods: list[Arrival] = []
    skipped = 0
    for row in reader:
        try:
            pod = _parse_row(row, len(pods), has_times=has_times)
        except (TypeError, ValueError, OverflowError) as err:
            raise SettingsInvalid(f"--arrivals {source}: line {reader.line_num}: {err}") from err
        if pod is None:
            skipped += 1
        else:
            pods.append(pod)
    # Python's sort keeps the list's order where times are equal.
    return Arrivals(pods=tuple(sorted(pods, key=lambda pod: pod.at_s)), skipped=skipped)


def _parse_row(row: Mapping[str, str], number: int, *, has_times: bool) -> Arrival | None:
    if None in row.values():
        raise ValueError("fewer fields than the first line has")
    count = _integer(row["num_gpu"] or "0")
    if count < 1 or _integer(row.get("gpu_milli") or str(_WHOLE_GPU_MILLI)) != _WHOLE_GPU_MILLI:
        return None
    if not has_times:
        return Arrival(name=row["name"], at_s=float(number), run_s=math.inf, count=count)
    arrived = _finite(row["creation_time"] or "0")
    ended = _finite(row["deletion_time"]) if row["deletion_time"] else math.inf
    return Arrival(name=row["name"], at_s=arrived, run_s=max(0.0, ended - arrived), count=count)


def _integer(text: str) -> int:
    """A count; tables that were through other programs say 8.0."""
    number = _finite(text)
    if number != int(number):
        raise ValueError(f"{text} is no whole number")
    return int(number)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number


def parse_yaml(data: bytes, source: str) -> Arrivals:
    """Our own form: ``pods``, each with count, atSeconds, runSeconds, and ``times`` with ``everySeconds`` to repeat it.

    Raises:
        SettingsInvalid: it is no YAML, has a field that is not known, or a selector that Kubernetes refuses.
    """
    import yaml  # noqa: PLC0415  (only where it is used)

    try:
        value: Any = yaml.safe_load(data)
        document = msgspec.convert(value, _Document)
    except (yaml.YAMLError, msgspec.ValidationError) as err:
        raise SettingsInvalid(f"--arrivals {source}: {err}") from err
    for entry, pod in enumerate(document.pods):
        _check_selector(pod.selector, f"--arrivals {source}: pods[{entry}].selector")
    pods = [_repeat(pod, entry, again) for entry, pod in enumerate(document.pods) for again in range(pod.times)]
    wrong = next((pod for pod in pods if pod.count < 1 or not math.isfinite(pod.at_s) or pod.run_s < 0), None)
    if wrong is not None:
        raise SettingsInvalid(f"--arrivals {source}: {wrong.name}: count is at least 1, and times are seconds from 0 on")
    return Arrivals(pods=tuple(sorted(pods, key=lambda pod: pod.at_s)))


def _check_selector(selector: str | None, where: str) -> None:
    if selector is None:
        return
    from driver.cel import SelectorError, compile_selector  # noqa: PLC0415  (most lists have none)

    try:
        compile_selector(selector)
    except SelectorError as err:
        raise SettingsInvalid(f"{where} does not compile; Kubernetes refuses it:\n{err}") from err


def _repeat(pod: _Pod, entry: int, again: int) -> Arrival:
    name = pod.name or f"pods[{entry}]"
    return Arrival(
        name=f"{name}-{again}" if pod.times > 1 else name,
        at_s=pod.at_s + again * pod.every_s,
        run_s=math.inf if pod.run_s is None else pod.run_s,
        count=pod.count,
        policy=Policy(scope=pod.scope, mode=pod.mode, packing=pod.packing),
        match_attribute=pod.match_attribute,
        selector=pod.selector,
    )


def without_departures(arrivals: Arrivals) -> Arrivals:
    """The same pods, none of which ever ends."""
    return replace(arrivals, pods=tuple(replace(pod, run_s=math.inf) for pod in arrivals.pods))
