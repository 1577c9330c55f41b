"""Grafana's dashboards, from a table of panels: JSON by hand hides what differs between them."""

from __future__ import annotations

import json
from typing import Any

from hack.docs.dashboard_fleet import FLEET
from hack.docs.dashboard_health import HEALTH
from hack.docs.dashboard_node import NODE
from hack.docs.panel import Column, Dashboard, Panel

_WIDTH = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}

DASHBOARDS = (FLEET, NODE, HEALTH)


def render_dashboard(dashboard: Dashboard) -> str:
    """The file's text."""
    return json.dumps(build_dashboard(dashboard), indent=1) + "\n"


def build_dashboard(dashboard: Dashboard) -> dict[str, Any]:
    """What Grafana reads (schema 39, Grafana 10 and later)."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["gpu-dra"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_build_source_variable(), *(_build_variable(*each) for each in dashboard.variables)]},
        "annotations": {"list": []},
        "links": [{"type": "dashboards", "tags": ["gpu-dra"], "title": "gpu-dra", "asDropdown": True, "includeVars": True}],
        "panels": _place(dashboard.panels),
    }


def _build_source_variable() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}, "hide": 0}


def _build_variable(label: str, metric: str) -> dict[str, Any]:
    return {
        "name": label,
        "label": label.capitalize(),
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": f"label_values({metric}, {label})", "refId": "A"},
        "definition": f"label_values({metric}, {label})",
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "refresh": 2,
        "sort": 1,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _place(panels: tuple[Panel, ...]) -> list[dict[str, Any]]:
    """Side by side, a new row where one is full."""
    placed, x, y, row = [], 0, 0, 0
    for number, panel in enumerate(panels, start=1):
        if x + panel.width > _WIDTH:
            x, y, row = 0, y + row, 0
        placed.append(_build_panel(panel, number, {"x": x, "y": y, "w": panel.width, "h": panel.height}))
        x, row = x + panel.width, max(row, panel.height)
    return placed


def _build_panel(panel: Panel, number: int, grid: dict[str, int]) -> dict[str, Any]:
    is_table = panel.kind == "table"
    targets = [
        {
            "refId": chr(ord("A") + place),
            "datasource": _SOURCE,
            "expr": query.expr,
            "legendFormat": query.legend or "__auto",
            "instant": panel.kind in {"table", "stat"},
            "range": panel.kind not in {"table", "stat"},
            "format": "table" if is_table else "time_series",
        }
        for place, query in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": grid,
        "fieldConfig": {"defaults": _build_defaults(panel), "overrides": [_build_override(each) for each in panel.columns]},
        "options": _OPTIONS[panel.kind] | ({} if panel.bad_from is None else {"colorMode": "background"}),
        "targets": targets,
        **({"transformations": [_build_order(panel.columns)]} if is_table else {}),
    }


def _build_defaults(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.top is not None:
        defaults["max"] = panel.top
    if panel.bad_from is not None:
        steps = [{"color": "green", "value": None}, {"color": panel.bad_color, "value": panel.bad_from}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
        defaults["color"] = {"mode": "thresholds"}
    return defaults


def _build_override(column: Column) -> dict[str, Any]:
    properties: list[dict[str, Any]] = []
    if column.shown:
        options = {
            value: {"text": shown.text, "index": index, **({"color": shown.color} if shown.color else {})}
            for index, (value, shown) in enumerate(column.shown.items())
        }
        properties.append({"id": "mappings", "value": [{"type": "value", "options": options}]})
    if any(shown.color for shown in column.shown.values()):
        properties.append({"id": "custom.cellOptions", "value": {"type": "color-background"}})
    if column.unit:
        properties.append({"id": "unit", "value": column.unit})
    if column.width:
        properties.append({"id": "custom.width", "value": column.width})
    return {"matcher": {"id": "byName", "options": column.title}, "properties": properties}


def _build_order(columns: tuple[Column, ...]) -> dict[str, Any]:
    """The columns as they are listed, and no others."""
    names = [each.name for each in columns]
    options = {
        "excludeByName": {each: True for each in ("Time", "Value") if each not in names},
        "indexByName": {name: index for index, name in enumerate(names)},
        "renameByName": {each.name: each.title for each in columns if each.title != each.name},
    }
    return {"id": "organize", "options": options}


_OPTIONS: dict[str, dict[str, Any]] = {
    "timeseries": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
    "stat": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "none", "graphMode": "none", "textMode": "auto"},
    "table": {"showHeader": True},
}
