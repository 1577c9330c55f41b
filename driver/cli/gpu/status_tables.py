"""``kubectl gpu status`` for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from driver.cli.gpu.node_status_tables import build_bar, build_bar_legend, build_node_part, join_uses
from driver.cli.gpu.status_views import (
    ClaimStatusView,
    CountsView,
    HeldDeviceView,
    IslandSizeView,
    NodeStatusView,
    ProductStatusView,
    StatusView,
    TroubleView,
    WaitView,
)
from driver.cli.gpu.tables import WHOSE, age, keep_readable, lines, short_product, table, take_note, title
from driver.cli.gpu.words import count, join_names

_MOST_NODES = 20
_MOST_ROWS = 20


def build_status_tables(view: StatusView, width: int, now_s: float, *, is_full: bool) -> RenderableType:
    """Everything. ``is_full``: all nodes, troubles and claims that wait."""
    subject = view.subject
    if subject is None:
        parts = _fleet(view, width, is_full=is_full)
    elif subject.kind == "node":
        parts = [part for node in view.nodes for part in build_node_part(node, view.troubles, width, now_s)]
    else:
        parts = [title(f"{subject.kind.capitalize()} {subject.namespace}/{subject.name}")]
        parts += [] if view.claims else [Text("  it has no claims for devices")]
    if view.claims:
        parts += _claims(view.claims, width, now_s, is_subject=subject is not None and subject.kind != "node")
    if view.troubles and (subject is None or subject.kind == "node"):
        parts += [Text(), title("What is wrong"), *_troubles(view.troubles, width, now_s, is_full=is_full)]
    if view.waiting:
        parts += [Text(), title("What waits"), *_waiting(view.waiting, width, now_s, is_full=is_full)]
    return Group(*parts, *take_note(view.notes, width))


def _fleet(view: StatusView, width: int, *, is_full: bool) -> list[RenderableType]:
    if not view.nodes:
        return [Text(f"there are no devices of {view.driver}", style="bold")]
    parts: list[RenderableType] = [*_headline(view.counts, len(view.nodes), width)]
    parts += [Text(), title("Products"), _products(view.products, width)]
    parts += [Text(), title("Nodes"), _nodes(view.nodes, width, is_full=is_full)]
    return [*parts, *build_bar_legend(gpu for node in view.nodes for gpu in node.gpus)]


def _headline(counts: CountsView, nodes: int, width: int) -> list[Text]:
    said = [f"{counts.allocated} allocated", f"{counts.free} free"]
    said += [f"{counts.unfit} unfit"] if counts.unfit else []
    said += [f"{counts.closed} closed"] if counts.closed else []
    said += [f"{counts.unknown} not known"] if counts.unknown else []
    text = f"{count(counts.gpus, 'GPU')} on {count(nodes, 'node')}: {', '.join(said)}"
    sick = f"; {counts.unhealthy} unhealthy" if counts.unhealthy else ""
    return lines(text + sick, width, indent=0, style="bold red" if counts.unhealthy else "bold")


def _products(products: Iterable[ProductStatusView], width: int) -> Table:
    made = table(
        ("product", "wrap"),
        ("allocator", "left"),
        ("nodes", "right"),
        ("GPUs", "right"),
        ("fit", "right"),
        ("held", "right"),
        ("free", "right"),
        ("sick", "right"),
        ("islands", "wrap"),
    )
    found = list(products)
    keep_readable(made, (short_product(each.product) for each in found), width // 2)
    for each in found:
        made.add_row(
            short_product(each.product),
            WHOSE[each.allocator],
            str(each.nodes),
            str(each.counts.gpus),
            str(each.counts.allocatable),
            str(each.counts.allocated),
            str(each.counts.free),
            _sick(each.counts),
            _islands(each.islands),
        )
    return made


def _sick(counts: CountsView) -> Text:
    return Text(str(counts.unhealthy), style="red" if counts.unhealthy else "")


def _islands(islands: Iterable[IslandSizeView]) -> str:
    """``8: 1/2``: of two islands of eight one is wholly free."""
    return ", ".join(f"{each.size}: {each.free}/{each.islands}" for each in islands) or "-"


def _nodes(nodes: Sequence[NodeStatusView], width: int, *, is_full: bool) -> Table:
    has_parts = any(each.mig_devices or each.shares for each in nodes)
    columns = [("node", "wrap"), ("allocator", "left"), ("GPUs", "wrap"), ("free", "right"), ("sick", "right")]
    made = table(*columns, *([("MIG", "right"), ("shares", "right")] if has_parts else []))
    groups = [[each] for each in nodes] if is_full or len(nodes) <= _MOST_NODES else _alike(nodes)
    names = [_node_name(group) for group in groups]
    keep_readable(made, (name.plain for name in names), width)
    shown = groups if is_full else groups[:_MOST_ROWS]
    for name, group in zip(names, shown, strict=False):
        each = group[0]
        row: list[RenderableType] = [
            name,
            WHOSE[each.allocator],
            build_bar(each.gpus),
            str(each.counts.free),
            _sick(each.counts),
        ]
        made.add_row(*row, *([str(each.mig_devices), str(each.shares)] if has_parts else []))
    if len(groups) > len(shown):
        made.add_row("...", "", f"{len(groups) - len(shown)} more kinds of nodes: --all-nodes, or -o json")
    return made


def _node_name(group: Sequence[NodeStatusView]) -> Text:
    first = group[0]
    marks = [("cordoned", first.is_cordoned), ("not ready", not first.is_ready)]
    marked = ", ".join(mark for mark, is_so in marks if is_so)
    name = join_names([each.node for each in group], 1)
    return Text(f"{name} ({marked})" if marked else name, style="yellow" if marked else "")


def _alike(nodes: Sequence[NodeStatusView]) -> list[list[NodeStatusView]]:
    """Nodes that have the same to say, together: what is sick first, then in order of allocator, then the fullest."""

    def key(each: NodeStatusView) -> tuple[object, ...]:
        gpus = tuple(sorted((gpu.state, gpu.is_healthy) for gpu in each.gpus))
        marks = (each.is_ready, not each.is_cordoned, -each.counts.unhealthy)
        return (*marks, each.allocator, each.product, each.counts.free, each.mig_devices, each.shares, gpus)

    ordered = sorted(nodes, key=lambda each: (key(each), each.node))
    return [list(group) for _, group in groupby(ordered, key=key)]


def _troubles(troubles: Sequence[TroubleView], width: int, now_s: float, *, is_full: bool) -> list[Text]:
    """What has a reason in common is said once, with all the GPUs that it is about."""
    groups: dict[tuple[object, ...], list[TroubleView]] = {}
    for each in troubles:
        own = () if each.source != "slice" else (each.node, each.gpu, each.device)
        groups.setdefault((each.text, each.source, each.is_blocking, *own), []).append(each)
    said: list[Text] = []
    shown = list(groups.values())[: None if is_full else _MOST_ROWS]
    for group in shown:
        first = group[0]
        where = join_names([_where(each) for each in group], 4)
        since = f", for {age(first.since, now_s)}" if first.since else ""
        mild = "" if first.is_blocking else "; it only warns, and keeps nobody away"
        said += lines(f"{where}{since}: {first.text}{mild}", width, hang=2, style="red" if first.is_blocking else "yellow")
    if len(groups) > len(shown):
        said += lines(f"{len(groups) - len(shown)} more: --all-nodes, or -o json", width)
    return said


def _where(trouble: TroubleView) -> str:
    return f"{trouble.node} {trouble.device}" if trouble.gpu is None else f"{trouble.node} GPU {trouble.gpu}"


def _claims(claims: Sequence[ClaimStatusView], width: int, now_s: float, *, is_subject: bool) -> list[RenderableType]:
    unwell = [each for each in claims if is_subject or any(device.conditions for device in each.devices)]
    parts: list[RenderableType] = [Text(), title("Claims" if is_subject else "Claims of which the node says something")]
    for each in unwell:
        parts += lines(_describe_claim(each, now_s), width)
        shown = [device for device in each.devices if is_subject or device.conditions]
        parts += [line for device in shown for line in _device(device, width, now_s)]
    return parts if unwell else []


def _describe_claim(claim: ClaimStatusView, now_s: float) -> str:
    if claim.state == "waiting":
        return f"{claim.claim}: waits for its devices"
    pods = join_uses(claim.pods)
    by = f"by {claim.allocator} {age(claim.since or '', now_s)} ago"
    return f"{claim.claim} ({pods}): allocated {by}" + (f", node {claim.node}" if claim.node else "")


def _device(device: HeldDeviceView, width: int, now_s: float) -> list[Text]:
    gpu = f"GPU {device.gpu}, " if device.gpu is not None else ""
    gpu += "only watched (admin access), " if device.is_admin else ""
    said = lines(f"{gpu}{device.device}: {'no trouble is known' if not device.troubles else 'not well'}", width, indent=4)
    for each in device.troubles:
        since = f"for {age(each.since, now_s)}: " if each.since else ""
        said += lines(f"{since}{each.text}", width, indent=6, style="red" if each.is_blocking else "yellow")
    for condition in device.conditions:
        text = ": ".join(part for part in (f"{condition.type}={condition.status}", condition.reason, condition.message) if part)
        said += lines(text, width, indent=6, hang=2, style="red" if condition.status == "False" else "")
    return said


def _waiting(waiting: Sequence[WaitView], width: int, now_s: float, *, is_full: bool) -> list[RenderableType]:
    made = table(("  claim", "wrap"), ("for", "right"), ("asks for", "wrap"))
    shown = waiting if is_full else waiting[:_MOST_ROWS]
    names = [f"  {each.claim}" for each in shown]
    keep_readable(made, names, width)
    for name, each in zip(names, shown, strict=True):
        asks = "; ".join(each.requests)
        what = Text(asks if not each.fault else f"{each.fault}", style="yellow" if each.fault else "")
        made.add_row(name + ("" if each.pods else " (no pod)"), age(each.since, now_s), what)
    parts: list[RenderableType] = [made]
    if len(waiting) > len(shown):
        parts += lines(f"{len(waiting) - len(shown)} more: --all-nodes, or -o json", width)
    first = next((each for each in waiting if each.pods), None)
    if first is not None:
        namespace = first.claim.partition("/")[0]
        parts += lines(f"why: kubectl gpu explain {first.pods[0]} -n {namespace}", width, style="cyan")
    return parts
