"""What Grafana would make of a panel's answers: texts, colours, columns. Pure; the parts of Grafana's form that ours use."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hack.dashboards.asking import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Of a table, or a number; ``color`` is its background."""

    text: str
    color: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of as many cells as there are titles."""

    titles: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def expand(expr: str, variables: Mapping[str, str]) -> str:
    """A query with its variables put in."""
    return re.sub(r"\$\{?(\w+)\}?", lambda found: variables.get(found[1], found[0]), expr)


def name_line(legend: str, labels: Mapping[str, str]) -> str:
    """What a series is called in a legend."""
    if legend == "__auto":
        return ", ".join(value for name, value in sorted(labels.items()) if name != "__name__") or "value"
    return re.sub(r"{{\s*(\w+)\s*}}", lambda found: labels.get(found[1], ""), legend)


def build_number(panel: Mapping[str, Any], series: Sequence[Series], legend: str) -> Cell:
    """A stat panel: the last value, or the series' name where it has one."""
    if not series:
        return Cell(text="No data")
    named = name_line(legend, series[0].labels) if legend not in {"", "__auto"} else ""
    value, defaults = series[0].last, panel["fieldConfig"]["defaults"]
    steps = defaults.get("thresholds", {}).get("steps", [])
    passed = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    is_filled = panel["options"].get("colorMode") == "background"
    return Cell(text=named or show_value(value, defaults["unit"]), color=passed[-1] if passed and is_filled else "")


def build_table(panel: Mapping[str, Any], series: Sequence[Series], now_s: float) -> Table:
    """A table panel: a column for each label, and one for the value."""
    order = panel["transformations"][0]["options"]
    hidden = {"__name__", *order["excludeByName"]}
    known = {name for each in series for name in (*each.labels, "Value")} | set(order["indexByName"])
    names = sorted(known - hidden, key=lambda name: (order["indexByName"].get(name, len(known)), name))
    titles = tuple(order["renameByName"].get(name, name) for name in names)
    rules = {each["matcher"]["options"]: each["properties"] for each in panel["fieldConfig"]["overrides"]}
    rows = [
        tuple(
            _build_cell(f"{each.last:g}" if name == "Value" else each.labels.get(name, ""), each, rules.get(title, ()), now_s)
            for name, title in zip(names, titles, strict=True)
        )
        for each in series
    ]
    return Table(titles=titles, rows=tuple(sorted(rows, key=lambda row: [cell.text for cell in row])))


def _build_cell(text: str, series: Series, properties: Sequence[Mapping[str, Any]], now_s: float) -> Cell:
    rules = {each["id"]: each["value"] for each in properties}
    if rules.get("unit") == "dateTimeFromNow":
        return Cell(text=_say_ago(now_s - series.last / 1000))
    shown = next((each["options"].get(text) for each in rules.get("mappings", ())), None) or {"text": text}
    is_filled = rules.get("custom.cellOptions", {}).get("type") == "color-background"
    return Cell(text=shown["text"], color=shown.get("color", "") if is_filled else "")


def _say_ago(seconds: float) -> str:
    return f"{seconds:.0f} seconds ago" if seconds < 90 else f"{seconds / 60:.0f} minutes ago"


_BYTES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_UNITS = {"s": " s", "celsius": " °C", "watt": " W", "ops": " /s"}


def show_value(value: float, unit: str) -> str:
    """A value in the words of Grafana's unit."""
    if unit == "percentunit":
        return f"{100 * value:.0f} %"
    if unit == "bytes":
        size, word = next((each for each in _BYTES if value >= each[0]), (1, "B"))
        return f"{value / size:.3g} {word}"
    return f"{value:.4g}{_UNITS.get(unit, '')}"
