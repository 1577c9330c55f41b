"""The openb lists with everything that they say: nodes and pods with CPU, memory and shares of GPUs."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Node(NamedTuple):
    """A node: thousandths of CPUs, MiB, GPUs."""

    cpu: int
    memory: int
    gpus: int


class Pod(NamedTuple):
    """What a pod asks for: thousandths of CPUs, MiB, GPUs, and thousandths of each GPU."""

    cpu: int
    memory: int
    gpus: int
    milli: int


def read_nodes(path: Path) -> list[Node]:
    """The nodes of a list."""
    return [Node(int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"])) for row in _rows(path)]


def read_pods(path: Path) -> list[Pod]:
    """The pods of a list."""
    return [
        Pod(int(row["cpu_milli"]), int(row["memory_mib"]), int(row["num_gpu"] or 0), int(row["gpu_milli"] or 0))
        for row in _rows(path)
    ]


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(io.StringIO(file.read()))
