"""A report as tables for people: fits 80 columns."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from driver.cli.simulation.report import Report

_MOST_SHOWN = 10
"""Kinds of pods that were never placed."""


def build_tables(report: Report) -> RenderableType:
    """Everything that ``gpu-dra simulate`` shows."""
    placed, hours = report.placed, report.gpu_hours
    head = Text(f"{report.nodes} nodes, {report.gpus} GPUs ({report.machine}), policy {report.policy}", style="bold")
    lines = [
        f"placed {placed.pods} of {placed.of_pods} pods, {placed.gpus} of {placed.of_gpus} GPUs asked for "
        f"({placed.percent_of_gpus:.2f} %)",
        f"GPUs in use {hours.percent_used:.1f} % of {hours.capacity:,.0f} GPU-hours",
    ]
    if report.skipped_pods:
        lines.append(f"{report.skipped_pods} pods of the list ask for no whole GPU and are left out")
    return Group(
        head, *(Text(line) for line in lines), Text(), _build_waits(report), *_build_never(report), *_build_links(report)
    )


def _build_waits(report: Report) -> Table:
    table = Table(title="Waits by size of request", title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in ("GPUs", "pods", "mean", "p95", "longest", "over 1 h", "never", "waited while free"):
        table.add_column(column, justify="right")
    for size, waits in report.waits.items():
        table.add_row(
            size,
            str(waits.count),
            format_seconds(waits.mean_s),
            format_seconds(waits.p95_s),
            format_seconds(waits.max_s),
            str(waits.over_1h),
            str(waits.never_placed),
            format_seconds(report.pending_while_free_h.get(size, 0.0) * 3600),
        )
    return table


def _build_never(report: Report) -> list[RenderableType]:
    if not report.never_placed:
        return []
    lines = [Text(), Text("Never placed: why, when nothing could happen any more", style="bold")]
    for each in report.never_placed[:_MOST_SHOWN]:
        pods = each.first if each.pods == 1 else f"{each.first} and {each.pods - 1} alike"
        lines.append(Text(f"{pods} for {each.gpus} GPU{'' if each.gpus == 1 else 's'}: {each.reason}"))
    rest = len(report.never_placed) - _MOST_SHOWN
    return [*lines, Text(f"{rest} other kinds of pods: -o json has all")] if rest > 0 else [*lines]


def _build_links(report: Report) -> list[RenderableType]:
    if not report.links:
        return []
    table = Table(title="Links of the sets", title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in ("GPUs", "placed", "best there is", "ring all NVLink"):
        table.add_column(column, justify="right")
    for size, links in report.links.items():
        table.add_row(size, str(links.placed), _share(links.ideal, links.placed), _share(links.nvlink, links.placed))
    return [Text(), table]


def format_seconds(seconds: float) -> str:
    """``0 s``, ``12 min``, ``3.5 h``, ``12 d``: two digits that say how bad it is."""
    for unit, length_s in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.1f} {unit}"
    return f"{seconds:.0f} s"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"
