"""The links between the GPUs of a node as text: the matrix, and the sets that a claim can ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from rich.text import Text

from driver.cli.view import LinkedGpuView, LinkView, link_text

_LEVELS = {
    "SAME_BOARD": "one board",
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "the CPU's PCIe host bridge",
    "NODE": "host bridges of one NUMA node",
    "SYS": "the link between CPU sockets",
    "UNKNOWN": "not told",
}
Said = tuple[str, list[str]]
"""The name of a kind of sets, and each set in words."""


class NvlinkSets(Protocol):
    """The sets of a node that NVLink makes, each by the positions of its members."""

    @property
    def islands(self) -> Sequence[Sequence[int]]:
        """Every pair is linked."""

    @property
    def quads(self) -> Sequence[Sequence[int]]:
        """The best fours on a ring."""

    @property
    def pairs(self) -> Sequence[Sequence[int]]:
        """The best twos."""


def build_matrix(links: Sequence[LinkView], size: int, width: int) -> list[Text]:
    """The link matrix of ``size`` GPUs, two at least, and its legend; one that is wider than the terminal is cut in blocks."""
    cells = {link.gpus: link for link in links}
    cell_width = max(len(link_text(link)) for link in links) + 1
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
    return lines + _legend(links)


def list_sets(gpus: Sequence[LinkedGpuView], sets: NvlinkSets) -> list[Said]:
    """What a claim can ask for, each set by its members."""
    named = (("nvlinkIsland", sets.islands), ("nvlinkQuad", sets.quads), ("nvlinkPair", sets.pairs))
    said = [(name, [braced(members) for members in found] or ["none of more than one GPU"]) for name, found in named]
    said.append(("PCIe root", _grouped(gpus, lambda gpu: gpu.pcie_root)))
    said.append(("NUMA node", _grouped(gpus, lambda gpu: gpu.numa_node)))
    return said


def build_set_lines(said: Iterable[Said], width: int) -> list[Text]:
    """One line for each kind, or more where they do not fit."""
    return [line for name, items in said for line in _hanging(f"  {name:<12}", items, width)]


def braced(members: Iterable[int]) -> str:
    """``{0 1 2}``."""
    return "{" + " ".join(str(member) for member in members) + "}"


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


def _hanging(head: str, items: Iterable[str], width: int) -> list[Text]:
    """Items after a head, as many on a line as fit, the further lines indented below the first."""
    lines = [head]
    for item in items:
        if len(lines[-1]) + 2 + len(item) > width and lines[-1].strip():
            lines.append(" " * len(head))
        lines[-1] += f"  {item}"
    return [Text(line) for line in lines]


def _grouped(gpus: Iterable[LinkedGpuView], fact: Callable[[LinkedGpuView], object]) -> list[str]:
    members: dict[str, list[int]] = {}
    for gpu in gpus:
        value = fact(gpu)
        members.setdefault("-" if value is None else str(value), []).append(gpu.gpu)
    return [f"{value} {braced(each)}" for value, each in members.items()]
