"""``kubectl gpu explain`` for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from driver.cli.gpu.tables import age, describe_way, keep_readable, lines, table, take_note, title
from driver.cli.gpu.views import ClaimView, EventView, ExplainView, NodeAnswer, PodView
from driver.cli.gpu.words import join_names

_STATES = {
    "waiting": ("waits", "yellow"),
    "placeable": ("about to be placed", "green"),
    "leftAlone": ("is not the controller's", "yellow"),
    "blocked": ("is not ready", "yellow"),
    "allocated": ("has its devices", "green"),
    "running": ("has its devices", "green"),
    "ended": ("has ended", ""),
    "unused": ("needs no devices", ""),
}
_VERDICTS = {
    "fits": ("fits", "green"),
    "held": ("held", "yellow"),
    "pod": ("pod does not fit", "yellow"),
    "devices": ("too few devices", "red"),
    "none": ("no such devices", "dim"),
    "controller": ("fenced", "dim"),
    "scheduler": ("not fenced", "dim"),
    "draining": ("draining", "dim"),
    "incomplete": ("incomplete", "dim"),
}
_MOST_ROWS = 20
_MOST_WAYS = 3


def build_explain_tables(view: ExplainView, width: int, now_s: float, *, is_full: bool) -> RenderableType:
    """Everything. ``is_full``: a row for every node, also where many say the same."""
    word, style = _STATES[view.state]
    head = Text(f"{view.kind.capitalize()} {view.namespace}/{view.name} ", style="bold")
    head.append(word, style=f"bold {style}".strip())
    parts: list[RenderableType] = [head, *lines(view.summary, width)]
    parts += [line for each in view.advice for line in lines(each, width, head="-> ", style="cyan")]
    parts += [Text(), title("Claims"), *_claims(view.claims, width, now_s)] if view.claims else []
    parts += [Text(), title("Pods"), _pods(view.pods, now_s)] if view.pods else []
    parts += [Text(), title("Nodes"), _nodes(view.nodes, width, is_full=is_full)] if view.nodes else []
    parts += _ways(view.nodes, width, now_s)
    parts += [Text(), title("What was said last"), *_events(view.events, width, now_s)] if view.events else []
    return Group(*parts, *take_note(view.notes, width))


def _claims(claims: Iterable[ClaimView], width: int, now_s: float) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for each in claims:
        state = {"allocated": "allocated", "waiting": "not allocated", "missing": "does not exist"}[each.state]
        if each.since is not None:
            state += f" by {each.allocator} {age(each.since, now_s)} ago" + (f", node {each.node}" if each.node else "")
        parts += lines(f"{each.claim.rpartition('/')[2]}: {state}", width)
        parts += [line for request in each.requests for line in lines(request, width, indent=4)]
        parts += [_devices(each, width)] if each.devices else []
        parts += lines(each.quality, width, indent=4, style="green") if each.quality else []
    return parts


def _devices(claim: ClaimView, width: int) -> Table:
    made = table(("    request", "left"), ("device", "wrap"), ("pool", "wrap"), ("island", "right"), ("product", "wrap"))
    keep_readable(made, [each.device for each in claim.devices], width, column=1)
    for each in claim.devices:
        island = "-" if each.island is None else str(each.island)
        made.add_row(f"    {each.request}", each.device, each.pool, island, each.product or each.driver)
    return made


def _pods(pods: Iterable[PodView], now_s: float) -> Table:
    made = table(("  pod", "left"), ("phase", "left"), ("node", "left"), ("age", "right"), ("now", "wrap"))
    for each in pods:
        made.add_row(f"  {each.pod}", each.phase, each.node or "-", age(each.since, now_s), each.state)
    return made


def _nodes(nodes: Sequence[NodeAnswer], width: int, *, is_full: bool) -> Table:
    groups = [[each] for each in nodes] if is_full else _alike(nodes)
    made = table(("  node", "wrap"), ("answer", "left"), ("why", "wrap"))
    names = [f"  {join_names([one.node for one in group], 1)}" for group in groups]
    keep_readable(made, names, width)
    for name, group in list(zip(names, groups, strict=True))[: None if is_full else _MOST_ROWS]:
        each = group[0]
        word, style = _VERDICTS[each.verdict]
        made.add_row(name, Text(word, style=style), "; ".join(each.reasons))
    if len(groups) > _MOST_ROWS and not is_full:
        made.add_row("  ...", "", f"{len(groups) - _MOST_ROWS} more kinds of answers: --all-nodes, or -o json")
    return made


def _alike(nodes: Sequence[NodeAnswer]) -> list[list[NodeAnswer]]:
    """Nodes of one answer together, in the order in which the answers come first."""
    groups: dict[tuple[str, tuple[str, ...]], list[NodeAnswer]] = {}
    for each in nodes:
        groups.setdefault((each.verdict, each.reasons), []).append(each)
    return list(groups.values())


def _ways(nodes: Iterable[NodeAnswer], width: int, now_s: float) -> list[Text]:
    """The nodes where the fewest claims are in the way."""
    ways = [way for each in nodes for way in each.ways]
    ways.sort(key=lambda way: (len(way.held_by), way.size - way.free, way.node))
    said = [line for way in ways[:_MOST_WAYS] for line in lines(f"{way.node}: {describe_way(way, now_s)}", width)]
    return [Text(), title("In the way, where the least is"), *said] if said else []


def _events(events: Iterable[EventView], width: int, now_s: float) -> list[Text]:
    """The newest first; what was said of several objects is said once."""
    said: list[Text] = []
    for (reason, note, reporter), found in groupby(events, key=lambda each: (each.reason, each.note, each.reporter)):
        ago, by = age(next(iter(found)).time, now_s), reporter.rpartition("/")[2]
        said += lines(f"{ago} ago, {by}: {reason}: {note}", width, hang=4)
    return said
