"""What a dashboard is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["timeseries", "stat", "table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A series, and what its line is called; empty: the value alone."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What stands in a table's cell instead of a value; ``color`` is its background."""

    text: str
    color: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table: a label, or ``Value``."""

    name: str
    title: str
    shown: Mapping[str, Shown] = field(default_factory=dict)
    """By value; others stand as they are."""
    unit: str = ""
    width: int = 0
    """Pixels; 0: what is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture. ``unit`` is Grafana's word; ``about`` says what to read from it."""

    title: str
    queries: tuple[Query, ...]
    about: str
    kind: Kind = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 8
    top: float | None = None
    """The axis ends there."""
    columns: tuple[Column, ...] = ()
    """Of a table, in their order; the others are hidden."""
    bad_from: float | None = None
    """A number is green below it, and ``bad_color`` from it on; None: without colour."""
    bad_color: str = "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """``variables`` are named after labels; each is a list of the values that ``from_metric`` has."""

    uid: str
    title: str
    about: str
    panels: tuple[Panel, ...]
    variables: tuple[tuple[str, str], ...] = ()
    """Label, and the metric that has its values."""


def one(expr: str, legend: str = "") -> tuple[Query, ...]:
    """A single query."""
    return (Query(expr=expr, legend=legend),)


def stat(title: str, expr: str, about: str, *, legend: str = "", width: int = 4) -> Panel:
    """A number, half as high as a picture."""
    return Panel(title=title, queries=one(expr, legend), about=about, kind="stat", width=width, height=4)


def lamp(title: str, expr: str, about: str, *, width: int, color: str = "red") -> Panel:
    """A number that must be 0: green then, else in ``color``."""
    queries = one(expr)
    return Panel(title=title, queries=queries, about=about, kind="stat", width=width, height=4, bad_from=1.0, bad_color=color)
