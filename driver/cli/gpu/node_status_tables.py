"""One node of ``kubectl gpu status`` for people: each GPU with its place, its health, and who has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from driver.api.quantity import parse_quantity
from driver.cli.gpu.status_views import GpuStatusView, NodeStatusView, TroubleView, UseView
from driver.cli.gpu.tables import WHOSE, age, lines, table
from driver.cli.gpu.words import join_names

MARKS = {
    "allocated": ("#", "blue", "held"),
    "parts": ("+", "magenta", "parts of it held"),
    "free": (".", "green", "free"),
    "unfit": ("x", "red", "unfit"),
    "closed": ("-", "dim", "not to be had now"),
    "unknown": ("?", "dim", "not known"),
}
_KINDS = {"xid": "XID", "ecc": "ECC", "nvlink": "NVLink"}
_MOST_MARKS = 16
_GIB = 1 << 30


def build_bar(gpus: Sequence[GpuStatusView]) -> Text:
    """A mark for each GPU, islands apart; numbers where there are many. Who is held and sick is red and ``!``."""
    if len(gpus) > _MOST_MARKS:
        states = [each.state for each in gpus]
        words = (f"{states.count(state)}{mark}" for state, (mark, _, _) in MARKS.items() if state in states)
        return Text(" ".join(words))
    bar = Text()
    for at, each in enumerate(gpus):
        if at and each.island != gpus[at - 1].island and _is_in_island(gpus, each, gpus[at - 1]):
            bar.append(" ")
        mark, style, _ = MARKS[each.state]
        is_sick = is_held_sick(each)
        bar.append("!" if is_sick else mark, style="bold red" if is_sick else style)
    return bar


def build_bar_legend(gpus: Iterable[GpuStatusView]) -> list[Text]:
    """What the marks mean, of those that are there."""
    all_gpus = list(gpus)
    found = {each.state for each in all_gpus}
    line = Text("  ")
    for state, (mark, style, meaning) in MARKS.items():
        if state in found:
            line.append(mark, style=style).append(f" {meaning}  ", style="dim")
    if any(is_held_sick(each) for each in all_gpus):
        line.append("!", style="bold red").append(" held and sick", style="dim")
    return [line]


def build_node_part(node: NodeStatusView, troubles: Iterable[TroubleView], width: int, now_s: float) -> list[RenderableType]:
    """The node's line, and a row for each GPU with those who have it below."""
    by_gpu: dict[int | None, list[TroubleView]] = {}
    for each in troubles:
        by_gpu.setdefault(each.gpu, []).append(each)
    parts: list[RenderableType] = [*_headline(node, width), Text()]
    return [*parts, _gpus(node.gpus, by_gpu, width, now_s)]


def join_uses(pods: Sequence[str]) -> str:
    """``pod a``, ``pods a, b``, ``no pod``."""
    return f"pod{'s' if len(pods) > 1 else ''} {join_names(pods)}" if pods else "no pod"


def _headline(node: NodeStatusView, width: int) -> list[Text]:
    marks = [f"allocator: {WHOSE[node.allocator]}"]
    marks += ["cordoned"] if node.is_cordoned else []
    marks += ["not ready"] if not node.is_ready else []
    counts = node.counts
    said = f"{counts.allocated} held, {counts.free} free"
    said += f", {counts.unhealthy} unhealthy" if counts.unhealthy else ""
    memory = next((f", {_gib(each.memory)} each" for each in node.gpus if each.memory), "")
    text = f"Node {node.node}: {counts.gpus} x {node.product or 'GPU'}{memory}; {', '.join(marks)}; {said}"
    return lines(text, width, indent=0, style="bold")


def _gpus(gpus: Sequence[GpuStatusView], troubles: dict[int | None, list[TroubleView]], width: int, now_s: float) -> Table:
    made = table(
        ("GPU", "right"), ("island", "right"), ("pair", "right"), ("NUMA", "right"), ("health", "wrap"), ("held by", "wrap")
    )
    made.columns[4].max_width = max(12, width // 4)
    for each in gpus:
        held, style = _describe_uses(each, now_s)
        made.add_row(
            each.device if each.gpu is None else str(each.gpu),
            _said(each.island),
            _said(each.pair),
            _said(each.numa_node),
            _health(each, troubles.get(each.gpu, []), now_s),
            Text(held, style=style),
        )
    return made


def _health(gpu: GpuStatusView, troubles: Sequence[TroubleView], now_s: float) -> Text:
    if not troubles:
        return Text("ok", style="green") if gpu.is_healthy else Text("tainted", style="red")
    words = [_name_kind(each) + (f" for {age(each.since, now_s)}" if each.since else "") for each in troubles]
    return Text(", ".join(dict.fromkeys(words)), style="yellow" if gpu.is_healthy else "red")


def _name_kind(trouble: TroubleView) -> str:
    """``XID 79``."""
    kind = trouble.key.rpartition("/")[2]
    return " ".join(part for part in (_KINDS.get(kind, kind), trouble.value) if part)


def _describe_uses(gpu: GpuStatusView, now_s: float) -> tuple[str, str]:
    """Lines of who has the GPU or its parts, then what of it is free."""
    if not gpu.uses and not gpu.free_parts:
        _, style, meaning = MARKS[gpu.state]
        return meaning, style
    said = [_describe_use(each, now_s) for each in gpu.uses]
    if gpu.free_parts and (gpu.uses or gpu.gpu is None):
        said.append("free: " + ", ".join(f"{number} x {profile}" for profile, number in gpu.free_parts.items()))
    elif not gpu.uses:
        said.append(f"{MARKS[gpu.state][2]}, whole or in MIG devices")
    return "\n".join(said), "" if gpu.uses else MARKS[gpu.state][1]


def _describe_use(use: UseView, now_s: float) -> str:
    what = ""
    if use.profile is not None:
        what = f"{use.profile}{_describe_slices(use.memory_slices)}: "
    elif use.memory is not None:
        what = f"{_gib(use.memory) if use.memory else 'a share'}: "
    return f"{what}{use.claim} ({join_uses(use.pods)}) for {age(use.since, now_s)}"


def _describe_slices(slices: Sequence[int]) -> str:
    if not slices:
        return ""
    return f" slice {slices[0]}" if len(slices) == 1 else f" slices {slices[0]}-{slices[-1]}"


def _is_in_island(gpus: Sequence[GpuStatusView], *members: GpuStatusView) -> bool:
    """Whether one of them shares its island: GPUs that are alone are not set apart."""
    return any(sum(each.island == member.island for each in gpus) > 1 for member in members)


def is_held_sick(gpu: GpuStatusView) -> bool:
    """Whether somebody has a GPU that is not well."""
    return bool(gpu.uses) and not gpu.is_healthy


def _said(value: object) -> str:
    return "-" if value is None else str(value)


def _gib(quantity: str) -> str:
    try:
        return f"{float(parse_quantity(quantity)) / _GIB:.1f} GiB"
    except ValueError:
        return quantity
