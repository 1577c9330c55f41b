"""Tables for people: they fit the terminal, with colour where the reader is a person."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from driver.allocator.shortage import describe_spans
from driver.cli.gpu.views import HolderView, WayView
from driver.cli.gpu.words import count, describe_span_s, join_names
from driver.controller.objects.life import parse_time_s

WHOSE = {
    "controller": "controller",
    "scheduler": "kube-scheduler",
    "draining": "nobody now",
    "mixed": "partly fenced",
}
"""Allocators in words."""


def table(*columns: tuple[str, str]) -> Table:
    """Columns by name with ``left``, ``right``, or ``wrap`` for the one that takes what is left of a line."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, kind in columns:
        made.add_column(name, justify="right" if kind == "right" else "left", no_wrap=kind != "wrap", overflow="fold")
    return made


def keep_readable(made: Table, names: Iterable[str], width: int, *, column: int = 0) -> None:
    """The names of a column are not broken before they take two fifths of the line."""
    made.columns[column].min_width = min(width * 2 // 5, max((len(name) for name in names), default=0))


def title(text: str) -> Text:
    """A heading."""
    return Text(text, style="bold")


def lines(text: str, width: int, *, indent: int = 2, head: str = "", hang: int = 0, style: str = "") -> list[Text]:
    """A text as lines below a heading; ``head`` hangs before its first, the others are ``hang`` further in."""
    first, rest = " " * indent + head, " " * (indent + len(head) + hang)
    wrapped = textwrap.wrap(text, max(40, width), initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return [Text(line, style=style) for line in wrapped]


def age(time: str, now_s: float) -> str:
    """How long ago, as kubectl says it; ``-`` where the time is not told."""
    at_s = parse_time_s(time)
    return describe_span_s(now_s - at_s) if at_s else "-"


def describe_way(way: WayView, now_s: float) -> str:
    """``2 of GPUs 0-3 are free, the rest is in: team/a (pod a, 2 GPUs, for 3h12m)``."""
    held = "; ".join(describe_holder(each, now_s) for each in way.held_by)
    return f"{way.free} free of GPUs {describe_spans(way.gpus)}; in the way: {held}"


def describe_holder(holder: HolderView, now_s: float) -> str:
    """A claim with its pods, how many GPUs it has, and for how long."""
    whose = f"pod {join_names(holder.pods)}" if holder.pods else "no pod"
    return f"{holder.claim} ({whose}, {count(holder.gpus, 'GPU')}, for {age(holder.since, now_s)})"


def short_product(name: str) -> str:
    """The product without its maker, who is always the same."""
    return name.removeprefix("NVIDIA ") or "-"


def take_note(notes: Iterable[str], width: int) -> list[Text]:
    """What could not be read, and the like."""
    said = [line for note in notes for line in lines(note, width, style="yellow")]
    return [Text(), title("Take note"), *said] if said else []
