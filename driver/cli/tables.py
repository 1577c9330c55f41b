"""A node as tables for people: fits 80 columns, with colour where the reader is a person."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from driver.cli.node_view import BoardView, FailureView, GpuView, LinkView, NodeView, link_text

PLAIN_WIDTH = 80
"""Where the reader is a program or a file, so that the output is the same everywhere."""

_LEVELS = {
    "SAME_BOARD": "one board",
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "the CPU's PCIe host bridge",
    "NODE": "host bridges of one NUMA node",
    "SYS": "the link between CPU sockets",
    "UNKNOWN": "not told",
}


def open_console(stream: TextIO | None = None) -> Console:
    """A console for stdout: styles and the terminal's width for people (not with NO_COLOR), plain 80 columns for others."""
    out = sys.stdout if stream is None else stream
    is_person = out.isatty() and os.environ.get("TERM") != "dumb"
    return _Console(file=out, highlight=False, force_terminal=is_person, width=None if is_person else PLAIN_WIDTH, emoji=False)


class _Console(Console):
    """rich's own ends the process with code 1 when the reader has gone; here ``main`` decides."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def build_node_tables(view: NodeView, width: int) -> RenderableType:
    """Everything that ``gpu-dra inspect`` shows of a node."""
    parts: list[RenderableType] = [_headline(view), *_boards(view.boards, view.gpus, width)]
    if view.gpus:
        parts += [Text(), _gpu_table(view.gpus)]
    if len(view.gpus) > 1:
        parts += [Text(), _title("Links"), *_matrix(view, width), *_legend(view.links)]
    if view.gpus:
        parts += [Text(), _title("Sets"), *_set_lines(view, width)]
    parts += [each for board in view.boards if board.mig_profiles for each in (Text(), *_mig_table(board, width))]
    parts += _warnings(view, width)
    return Group(*parts)


def _title(text: str) -> Text:
    return Text(text, style="bold")


def _headline(view: NodeView) -> Text:
    cuda = f", CUDA {view.cuda_driver_version}" if view.cuda_driver_version else ""
    count = len(view.gpus)
    text = Text(f"Node {view.node}: ", style="bold")
    text.append(f"{count} GPU{'' if count == 1 else 's'}, NVIDIA driver {view.driver_version}{cuda}", style="not bold")
    return text


def _boards(boards: Sequence[BoardView], gpus: Sequence[GpuView], width: int) -> list[Text]:
    """One line for each product, as different tables of one product stand apart only below."""
    members: dict[str, list[int]] = {}
    for board in boards:
        members.setdefault(board.product_name, []).extend(board.gpus)
    lines: list[Text] = []
    for name, positions in members.items():
        gpu = gpus[positions[0]]
        capability = f"compute capability {gpu.cuda_compute_capability}" if gpu.cuda_compute_capability else None
        facts = ", ".join(fact for fact in (gpu.architecture, capability) if fact)
        text = f"{len(positions)} x {name}" + (f" ({facts})" if facts else "")
        lines += [Text(f"  {line}") for line in textwrap.wrap(text, width - 2, subsequent_indent="  ")]
    return lines


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, justify in columns:
        table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=True)
    return table


def _gpu_table(gpus: Iterable[GpuView]) -> Table:
    table = _table(
        ("GPU", "right"),
        ("device", "left"),
        ("minor", "right"),
        ("memory", "right"),
        ("NUMA", "right"),
        ("PCIe root", "left"),
        ("NVLinks", "right"),
        ("MIG", "left"),
    )
    for gpu in gpus:
        table.add_row(
            str(gpu.gpu),
            gpu.device,
            str(gpu.minor),
            _gib(gpu.memory_bytes),
            _said(gpu.numa_node),
            _said(gpu.pcie_root),
            str(gpu.nvlinks),
            "on" if gpu.mig_enabled else "off",
        )
    return table


def _matrix(view: NodeView, width: int) -> list[Text]:
    """The link matrix; where it is wider than the terminal, in several blocks of columns."""
    cells = {link.gpus: link for link in view.links}
    size = len(view.gpus)
    cell_width = max(len(link_text(link)) for link in view.links) + 1
    block = max(1, (width - 4) // cell_width)
    lines: list[Text] = []
    for first in range(0, size, block):
        columns = range(first, min(first + block, size))
        lines.append(Text(" " * 4 + "".join(f"{column:>{cell_width}}" for column in columns), style="bold"))
        for row in range(size):
            line = Text(f"{row:>4}", style="bold")
            for column in columns:
                line.append_text(_cell(cells.get((min(row, column), max(row, column))), cell_width))
            lines.append(line)
    return lines


def _cell(link: LinkView | None, width: int) -> Text:
    if link is None:
        return Text(f"{'X':>{width}}", style="dim")
    style = "green" if link.nvlinks else "cyan" if link.pcie in {"SAME_BOARD", "PIX", "PXB", "PHB"} else "dim"
    return Text(f"{link_text(link):>{width}}", style=style)


def _legend(links: Iterable[LinkView]) -> list[Text]:
    shown = {link_text(link) for link in links}
    lines = [Text("    NVn  n NVLinks", style="dim")] if any(text.startswith("NV") for text in shown) else []
    lines += [
        Text(f"    {level:<4} PCIe: through {meaning}", style="dim") for level, meaning in _LEVELS.items() if level in shown
    ]
    return lines


def _set_lines(view: NodeView, width: int) -> list[Text]:
    """What a claim can ask for, each set by its members."""
    named = (("nvlinkIsland", view.islands), ("nvlinkQuad", view.quads), ("nvlinkPair", view.pairs))
    said = [(name, [_braced(members) for members in sets] or ["none of more than one GPU"]) for name, sets in named]
    said.append(("PCIe root", _grouped(view.gpus, lambda gpu: gpu.pcie_root)))
    said.append(("NUMA node", _grouped(view.gpus, lambda gpu: gpu.numa_node)))
    fabrics = {gpu.fabric for gpu in view.gpus if gpu.fabric is not None}
    for fabric in sorted(fabrics, key=lambda each: (each.cluster_uuid, each.clique_id)):
        members = [gpu.gpu for gpu in view.gpus if gpu.fabric == fabric]
        state = "" if fabric.complete else " (not complete)"
        said.append(("fabric", [f"{fabric.cluster_uuid}.{fabric.clique_id}{state}", _braced(members)]))
    return [line for name, items in said for line in _hanging(f"  {name:<12}", items, width)]


def _hanging(head: str, items: Iterable[str], width: int) -> list[Text]:
    """Items after a head, as many on a line as fit, the further lines indented below the first."""
    lines = [head]
    for item in items:
        if len(lines[-1]) + 2 + len(item) > width and lines[-1].strip():
            lines.append(" " * len(head))
        lines[-1] += f"  {item}"
    return [Text(line) for line in lines]


def _grouped(gpus: Iterable[GpuView], fact: Callable[[GpuView], object]) -> list[str]:
    members: dict[str, list[int]] = {}
    for gpu in gpus:
        members.setdefault(_said(fact(gpu)), []).append(gpu.gpu)
    return [f"{value} {_braced(each)}" for value, each in members.items()]


def _mig_table(board: BoardView, width: int) -> list[RenderableType]:
    table = _table(
        ("  id", "right"),
        ("slices", "right"),
        ("memory", "right"),
        ("at most", "right"),
        ("starts at", "left"),
        ("size", "right"),
    )
    for profile in board.mig_profiles:
        table.add_row(
            str(profile.id),
            f"{profile.compute_slices}g",
            _gib(profile.memory_mib * 1024 * 1024),
            str(profile.max_instances),
            " ".join(str(each.start) for each in profile.placements),
            str(profile.placements[0].size) if profile.placements else "-",
        )
    title = textwrap.wrap(f"MIG profiles of {board.product_name}, GPU {_braced(board.gpus)}", width)
    return [*(_title(line) for line in title), table]


def _warnings(view: NodeView, width: int) -> list[RenderableType]:
    said = [_failure(failure) for failure in view.failures]
    said += [f"links of {_braced(link.gpus)} are not the same seen from both ends" for link in view.links if link.asymmetric]
    said += list(view.notes)
    lines = [line for text in said for line in textwrap.wrap(text, width - 2, subsequent_indent="  ")]
    return [Text(), _title("Take note"), *(Text(f"  {line}", style="yellow") for line in lines)] if lines else []


def _failure(failure: FailureView) -> str:
    where = failure.pci_address or "address not known"
    return f"NVML index {failure.index} ({where}) is left out: {failure.reason}"


def _braced(members: Iterable[int]) -> str:
    return "{" + " ".join(str(member) for member in members) + "}"


def _said(value: object) -> str:
    return "-" if value is None else str(value)


def _gib(amount: int | None) -> str:
    return "-" if amount is None else f"{amount / 1024**3:.1f} GiB"
