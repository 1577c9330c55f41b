"""``python -m hack.dashboards deploy/dashboards/health.json --prometheus http://127.0.0.1:9090 --out page.html``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hack.dashboards.asking import Prometheus, PrometheusRefused
from hack.dashboards.drawing import Content, Graph, Line, draw_page
from hack.dashboards.panels import build_number, build_table, expand, name_line

_POINTS = 120


def read_page(dashboard: Mapping[str, Any], prometheus: Prometheus, minutes: float) -> str:
    """The dashboard as it is now, with all its variables at All. A panel whose query is wrong says so, and the rest stands."""
    now_s = time.time()
    variables = {each["name"]: each["allValue"] for each in dashboard["templating"]["list"] if "allValue" in each}
    contents = [_read_panel(panel, prometheus, variables, now_s, minutes) for panel in dashboard["panels"]]
    note = f"{time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(now_s))}, the last {minutes:g} minutes; drawn without Grafana"
    return draw_page(dashboard, contents, note)


def _read_panel(
    panel: Mapping[str, Any], prometheus: Prometheus, variables: Mapping[str, str], now_s: float, minutes: float
) -> Content:
    targets = [(expand(each["expr"], variables), str(each["legendFormat"])) for each in panel["targets"]]
    try:
        if panel["type"] == "stat":
            return build_number(panel, prometheus.ask(targets[0][0], now_s), targets[0][1])
        if panel["type"] == "table":
            return build_table(panel, prometheus.ask(targets[0][0], now_s), now_s)
        from_s = now_s - 60 * minutes
        lines = tuple(
            Line(name=name_line(legend, series.labels), points=series.points)
            for expr, legend in targets
            for series in prometheus.ask_range(expr, from_s, now_s, 60 * minutes / _POINTS)
        )
    except PrometheusRefused as err:
        return str(err)
    return Graph(lines=lines, from_s=from_s, to_s=now_s, unit=panel["fieldConfig"]["defaults"]["unit"])


def main(argv: list[str]) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m hack.dashboards", description=__doc__)
    parser.add_argument("dashboard", type=Path, help="a file of deploy/dashboards")
    parser.add_argument("--prometheus", required=True, metavar="URL")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the HTML page")
    parser.add_argument("--minutes", type=float, default=15.0, metavar="N", help="how far back the lines go (default: 15)")
    chosen = parser.parse_args(argv)
    page = read_page(json.loads(chosen.dashboard.read_text()), Prometheus(url=chosen.prometheus), chosen.minutes)
    chosen.out.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
