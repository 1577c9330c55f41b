"""A node as tables for people: fits 80 columns, with colour where the reader is a person."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from driver.cli.link_tables import braced, build_matrix, build_set_lines, list_sets
from driver.cli.node_view import BoardView, FailureView, GpuView, NodeView
from driver.cli.printable import encode_printable

PLAIN_WIDTH = 80
"""Where the reader is a program or a file, so that the output is the same everywhere."""


def open_console(stream: TextIO | None = None) -> Console:
    """A console for stdout: styles and the terminal's width for people (not with NO_COLOR), plain 80 columns for others."""
    out = sys.stdout if stream is None else stream
    is_person = out.isatty() and os.environ.get("TERM") != "dumb"
    return _Console(file=out, highlight=False, force_terminal=is_person, width=None if is_person else PLAIN_WIDTH, emoji=False)


class _Console(Console):
    """rich's own ends the process with code 1 when the reader has gone; here ``main`` decides.

    It also hands on escapes that stand in a text: whoever may write a slice would write to the reader's terminal. And it fills
    the last cell of each row with blanks, which nobody sees and every comparison of two outputs does.
    """

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        line: list[Segment] = []
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else encode_printable(segment.text)
            if text == "\n":
                yield from _without_last_blanks(line)
                yield segment
                line.clear()
            else:
                line.append(segment if text is segment.text else Segment(text, segment.style))
        yield from line


def _without_last_blanks(line: list[Segment]) -> Iterator[Segment]:
    seen = max((place for place, each in enumerate(line) if each.control or each.text.strip()), default=-1)
    yield from line[: max(seen, 0)]
    if seen >= 0:
        last = line[seen]
        yield last if last.control else Segment(last.text.rstrip(" "), last.style)


def build_node_tables(view: NodeView, width: int) -> RenderableType:
    """Everything that ``gpu-dra inspect`` shows of a node."""
    parts: list[RenderableType] = [_headline(view), *_boards(view.boards, view.gpus, width)]
    if view.gpus:
        parts += [Text(), _gpu_table(view.gpus)]
    if len(view.gpus) > 1:
        parts += [Text(), _title("Links"), *build_matrix(view.links, len(view.gpus), width)]
    if view.gpus:
        parts += [Text(), _title("Sets"), *_set_lines(view, width)]
    parts += [each for board in view.boards if board.mig_profiles for each in (Text(), *_mig_table(board, width))]
    parts += _mig_lines(view, width)
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
        ("MIG", "right"),
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


def _set_lines(view: NodeView, width: int) -> list[Text]:
    """What a claim can ask for, each set by its members."""
    said = list_sets(view.gpus, view)
    fabrics = {gpu.fabric for gpu in view.gpus if gpu.fabric is not None}
    for fabric in sorted(fabrics, key=lambda each: (each.cluster_uuid, each.clique_id)):
        members = [gpu.gpu for gpu in view.gpus if gpu.fabric == fabric]
        state = "" if fabric.complete else " (not complete)"
        said.append(("fabric", [f"{fabric.cluster_uuid}.{fabric.clique_id}{state}", braced(members)]))
    return build_set_lines(said, width)


def _mig_table(board: BoardView, width: int) -> list[RenderableType]:
    table = _table(
        ("  id", "right"),
        ("profile", "left"),
        ("memory", "right"),
        ("at most", "right"),
        ("starts at", "left"),
        ("size", "right"),
    )
    for profile in board.mig_profiles:
        table.add_row(
            str(profile.id),
            profile.profile,
            _gib(profile.memory_mib * 1024 * 1024),
            str(profile.max_instances),
            " ".join(str(each.start) for each in profile.placements),
            str(profile.placements[0].size) if profile.placements else "-",
        )
    title = textwrap.wrap(f"MIG profiles of {board.product_name}, GPU {braced(board.gpus)}", width)
    return [*(_title(line) for line in title), table]


def _mig_lines(view: NodeView, width: int) -> list[RenderableType]:
    """The MIG devices that there are, and the GPUs of which claims make some."""
    divided = [gpu.gpu for gpu in view.gpus if gpu.mig_offer == "dynamic"]
    lines = [f"{each.device}  {each.profile}" for each in view.mig_devices]
    if divided:
        lines.append(f"made by claims on GPU {braced(divided)}")
    wrapped = [line for text in lines for line in textwrap.wrap(text, width - 2)]
    return [Text(), _title("MIG devices"), *(Text(f"  {line}") for line in wrapped)] if lines else []


def _warnings(view: NodeView, width: int) -> list[RenderableType]:
    said = [_failure(failure) for failure in view.failures]
    said += [f"links of {braced(link.gpus)} are not the same seen from both ends" for link in view.links if link.asymmetric]
    said += list(view.notes)
    lines = [line for text in said for line in textwrap.wrap(text, width - 2, subsequent_indent="  ")]
    return [Text(), _title("Take note"), *(Text(f"  {line}", style="yellow") for line in lines)] if lines else []


def _failure(failure: FailureView) -> str:
    where = failure.pci_address or "address not known"
    return f"NVML index {failure.index} ({where}) is left out: {failure.reason}"


def _said(value: object) -> str:
    return "-" if value is None else str(value)


def _gib(amount: int | None) -> str:
    return "-" if amount is None else f"{amount / 1024**3:.1f} GiB"
