"""One HTML page of a dashboard: panels where Grafana would put them, lines as SVG. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from hack.dashboards.panels import Cell, Table, show_value

_COLORS = {"red": "#c4162a", "orange": "#e0752d", "green": "#37872d", "": "#22252b"}
_LINES = ("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0", "#b7dbab", "#f9d9f9")
_COLUMN_PX, _ROW_PX, _GAP_PX = 62, 34, 6
_STYLE = """
body { background: #111217; color: #d8d9da; font: 13px/1.35 sans-serif; margin: 12px; width: %dpx }
h1 { font-size: 18px } h1 small { color: #8e8e8e; font-size: 13px; font-weight: normal }
main { position: relative } section { background: #181b1f; border: 1px solid #2c3235; position: absolute; overflow: hidden }
h2 { font-size: 13px; margin: 5px 8px } h2 small { color: #8e8e8e; font-weight: normal }
.number { font-size: 38px; font-weight: bold; text-align: center; height: 100%%; padding-top: 22px; color: #fff }
table { border-collapse: collapse; margin: 4px 8px; width: calc(100%% - 16px) } td, th { text-align: left; padding: 3px 6px;
border-bottom: 1px solid #2c3235; font-size: 12px } th { color: #6e9fff } .legend { font-size: 11px; margin: 0 8px }
.empty { color: #8e8e8e; text-align: center; padding-top: 24px } .error { color: #ff7383; padding: 8px }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A named series."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Lines over a time, in a unit of Grafana's."""

    lines: tuple[Line, ...]
    from_s: float
    to_s: float
    unit: str


Content = Cell | Table | Graph | str
"""Of a panel; text is why there is none."""


def draw_page(dashboard: Mapping[str, Any], contents: Sequence[Content], note: str) -> str:
    """The page; ``contents`` are in the order of the panels."""
    panels = dashboard["panels"]
    height = max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in panels) * _ROW_PX
    sections = "".join(_draw_panel(panel, content) for panel, content in zip(panels, contents, strict=True))
    title = escape(dashboard["title"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE % (24 * _COLUMN_PX)}</style><h1>{title} <small>{escape(note)}</small></h1>"
        f'<main style="height: {height}px">{sections}</main></html>\n'
    )


def _draw_panel(panel: Mapping[str, Any], content: Content) -> str:
    grid = panel["gridPos"]
    width, height = grid["w"] * _COLUMN_PX - _GAP_PX, grid["h"] * _ROW_PX - _GAP_PX
    place = f"left: {grid['x'] * _COLUMN_PX}px; top: {grid['y'] * _ROW_PX}px; width: {width}px; height: {height}px"
    head = f"<h2>{escape(panel['title'])} <small>{escape(panel['description'])}</small></h2>"
    filled = f"; background: {_COLORS[content.color]}" if isinstance(content, Cell) and content.color else ""
    return f'<section style="{place}{filled}">{head}{_draw_content(content, width, height)}</section>'


def _draw_content(content: Content, width: int, height: int) -> str:
    if isinstance(content, Cell):
        return f'<div class="number">{escape(content.text)}</div>'
    if isinstance(content, Table):
        return _draw_table(content)
    if isinstance(content, Graph):
        return _draw_graph(content, width - 16, height - 76) if content.lines else '<div class="empty">No data</div>'
    return f'<div class="error">{escape(content)}</div>'


def _draw_table(table: Table) -> str:
    if not table.rows:
        return '<div class="empty">No data</div>'
    head = "".join(f"<th>{escape(title)}</th>" for title in table.titles)
    rows = "".join(f"<tr>{''.join(map(_draw_cell, row))}</tr>" for row in table.rows)
    return f"<table><tr>{head}</tr>{rows}</table>"


def _draw_cell(cell: Cell) -> str:
    filled = f' style="background: {_COLORS[cell.color]}; color: #fff"' if cell.color else ""
    return f"<td{filled}>{escape(cell.text)}</td>"


def _draw_graph(graph: Graph, width: int, height: int) -> str:
    top = max((value for line in graph.lines for _, value in line.points), default=0.0) * 1.1 or 1.0
    span_s = max(graph.to_s - graph.from_s, 1.0)

    def place(points: Iterable[tuple[float, float]]) -> str:
        return " ".join(
            f"{(at - graph.from_s) / span_s * width:.1f},{height - value / top * height:.1f}" for at, value in points
        )

    colored = [(line, _LINES[number % len(_LINES)]) for number, line in enumerate(graph.lines)]
    drawn = "".join(
        f'<polyline points="{place(line.points)}" fill="none" stroke="{color}" stroke-width="1.5"/>' for line, color in colored
    )
    names = " ".join(f'<span style="color: {color}">&#9644; {escape(line.name)}</span>' for line, color in colored[:12])
    return (
        f'<svg width="{width}" height="{height}" style="margin: 0 8px"><rect width="100%" height="100%" fill="#111217"/>{drawn}'
        f'<text x="3" y="12" fill="#8e8e8e" font-size="11">{escape(show_value(top, graph.unit))}</text></svg>'
        f'<div class="legend">{names}</div>'
    )
