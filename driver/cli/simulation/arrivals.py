"""Lists of pods that arrive: CSV of the openb form, or our own YAML.

openb is Alibaba's GPU cluster trace of 2023 in the form of the FGD simulator (hkust-adsl/kubernetes-scheduler-simulator). Pods
that ask for a share of a GPU, or for none, are counted and skipped: a claim is for whole GPUs.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from driver.api.resource_v1 import ALLOCATION_RESULTS_MAX
from driver.api.topology_policy import Mode, Packing, Policy, Scope
from driver.errors import SettingsInvalid
from driver.nvml.mock.hints import add_hint

DEFAULT_POLICY = Policy()
_COLUMNS = ("name", "num_gpu")
_TIMES = ("creation_time", "deletion_time")
_WHOLE_GPU_MILLI = 1000
_MOST_BYTES = 256 << 20
_MOST_PODS = 1_000_000
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


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
    at_s: _Seconds = msgspec.field(name="atSeconds", default=0.0)
    run_s: _Seconds | None = msgspec.field(name="runSeconds", default=None)
    count: Annotated[int, msgspec.Meta(ge=1, le=ALLOCATION_RESULTS_MAX)]
    name: str = ""
    times: Annotated[int, msgspec.Meta(ge=1, le=_MOST_PODS)] = 1
    every_s: _Seconds = msgspec.field(name="everySeconds", default=0.0)
    scope: Scope = Scope.NVLINK
    mode: Mode = Mode.PREFERRED
    packing: Packing = Packing.PACK
    match_attribute: str | None = None
    selector: str | None = None


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pods: tuple[_Pod, ...]


def read_arrivals(path: Path) -> Arrivals:
    """The arrivals in a file: YAML where its name says so, else CSV, also packed (``.gz``).

    Raises:
        SettingsInvalid: it cannot be read, or is not such a list; the text has the line or the path in it.
    """
    data = read_list(path, "--arrivals")
    if path.suffix in (".yaml", ".yml"):
        return parse_yaml(data, str(path))
    return parse_csv(data, str(path))


def read_list(path: Path, flag: str) -> bytes:
    """The content of a list, unpacked where its name ends in ``.gz``.

    Raises:
        SettingsInvalid: it cannot be read.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(_MOST_BYTES)
    except (OSError, EOFError, zlib.error) as err:
        reason = (err.strerror if isinstance(err, OSError) else None) or str(err)
        right = "a number, or a list" if flag == "--nodes" else "a list"
        raise SettingsInvalid(f"{flag} {path}: cannot be read: {reason}; give {right} as in docs/simulate.md") from err


def parse_csv(data: bytes, source: str) -> Arrivals:
    """The whole-GPU pods of a CSV list. Without times, pods arrive one after the other and never end.

    Raises:
        SettingsInvalid: a column is missing, or a number is none.
    """
    reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig", errors="replace")))
    missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        found = f"; this one has {', '.join(reader.fieldnames)}" if reader.fieldnames else ""
        raise SettingsInvalid(
            f"--arrivals {source}: no column {missing[0]}; a CSV list has at least {', '.join(_COLUMNS)}{found}"
        )
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
    return _order(pods, source, skipped)


def _order(pods: Sequence[Arrival], source: str, skipped: int = 0) -> Arrivals:
    """In order of arrival, where that is the same as in the list. Of pods with one name the later ones get another."""
    if not pods:
        rest = f" (of {skipped}, none asks for a whole GPU)" if skipped else ""
        raise SettingsInvalid(f"--arrivals {source}: no pod to play{rest}; docs/simulate.md has the form")
    seen: Counter[str] = Counter()
    named = []
    for pod in pods:
        seen[pod.name] += 1
        number = seen[pod.name]
        named.append(pod if number == 1 else replace(pod, name=f"{pod.name} ({number})"))
    return Arrivals(pods=tuple(sorted(named, key=lambda pod: pod.at_s)), skipped=skipped)


def _parse_row(row: Mapping[str, str], number: int, *, has_times: bool) -> Arrival | None:
    if None in row.values():
        raise ValueError("fewer fields than the first line has")
    count = _integer(row, "num_gpu", 0)
    if count < 1 or _integer(row, "gpu_milli", _WHOLE_GPU_MILLI) != _WHOLE_GPU_MILLI:
        return None
    if count > ALLOCATION_RESULTS_MAX:
        raise ValueError(f"num_gpu: {count}; a claim can have {ALLOCATION_RESULTS_MAX} GPUs at most")
    if not has_times:
        return Arrival(name=row["name"], at_s=float(number), run_s=math.inf, count=count)
    arrived = _number(row, "creation_time", 0.0)
    ended = _number(row, "deletion_time", math.inf)
    return Arrival(name=row["name"], at_s=arrived, run_s=max(0.0, ended - arrived), count=count)


def _integer(row: Mapping[str, str], column: str, default: int) -> int:
    """A count; tables that were through other programs say 8.0."""
    number = _number(row, column, default)
    if number != int(number):
        raise ValueError(f"{column}: {row[column]} is no whole number")
    return int(number)


def _number(row: Mapping[str, str], column: str, default: float) -> float:
    text = row.get(column)
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{column}: {text[:80]!r} is no number")
    return number


def parse_yaml(data: bytes, source: str) -> Arrivals:
    """Our own form: ``pods``, each with count, atSeconds, runSeconds, and ``times`` with ``everySeconds`` to repeat it.

    Raises:
        SettingsInvalid: it is no YAML, has a field that is not known, or a selector that Kubernetes refuses.
    """
    import yaml  # noqa: PLC0415  (only where it is used)

    try:
        value: Any = yaml.safe_load(data)
    except (yaml.YAMLError, RecursionError, ValueError) as err:
        raise SettingsInvalid(f"--arrivals {source}: is not YAML: {err}; docs/simulate.md has the form") from err
    try:
        document = msgspec.convert(value, _Document)
    except msgspec.ValidationError as err:
        raise SettingsInvalid(f"--arrivals {source}: {add_hint(str(err), _Document)} (docs/simulate.md has the form)") from err
    if sum(pod.times for pod in document.pods) > _MOST_PODS:
        raise SettingsInvalid(f"--arrivals {source}: more than {_MOST_PODS} pods; let fewer repeat less often (times)")
    for entry, pod in enumerate(document.pods):
        _check_selector(pod.selector, f"--arrivals {source}: pods[{entry}].selector")
    return _order([_repeat(pod, entry, again) for entry, pod in enumerate(document.pods) for again in range(pod.times)], source)


def _check_selector(selector: str | None, where: str) -> None:
    if selector is None:
        return
    from driver.cel import SelectorError, compile_selector, find_error_hint  # noqa: PLC0415  (most lists have none)

    try:
        compile_selector(selector)
    except SelectorError as err:
        hint = find_error_hint(err)
        raise SettingsInvalid(
            f"{where} does not compile; Kubernetes refuses it:\n{err}" + (f"\n{hint}" if hint else "")
        ) from err


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
