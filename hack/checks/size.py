"""Keeps files and functions short enough to be read at a glance.

Past the first figure a size is named, past the second the check fails: a file has 300 and 400 lines, a function 40 and 60,
its docstring not counted. Whoever comes near a figure cuts by responsibility, not by line count.

    python -m hack.checks.size
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hack.checks.tree import REPOSITORY, is_generated, list_files

SUFFIXES = frozenset({".py", ".sh"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The sizes from which something is named, and refused."""

    wanted: int
    most: int


FILE = Limit(wanted=300, most=400)
FUNCTION = Limit(wanted=40, most=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """Something larger than wanted. `place` is a path with a line number, `what` a file or a function's name."""

    place: str
    what: str
    lines: int
    limit: Limit

    @property
    def is_refused(self) -> bool:
        """Whether it is past the hard limit."""
        return self.lines > self.limit.most

    def __str__(self) -> str:
        """One line for people."""
        verdict = f"at most {self.limit.most}" if self.is_refused else f"better {self.limit.wanted}"
        return f"{self.place}: {self.what} has {self.lines} lines, {verdict}"


def count_function_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines from `def` to the end, without the docstring."""
    total = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is None:
        return total
    return total - ((first.end_lineno or first.lineno) - first.lineno + 1)


def find_excess(path: Path, text: str) -> Iterator[Excess]:
    """The file itself and the functions in it that are larger than wanted."""
    lines = len(text.splitlines())
    if lines > FILE.wanted:
        yield Excess(place=str(path), what="the file", lines=lines, limit=FILE)
    if path.suffix != ".py":
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = count_function_lines(node)
            if lines > FUNCTION.wanted:
                yield Excess(place=f"{path}:{node.lineno}", what=f"{node.name}()", lines=lines, limit=FUNCTION)


def main(repository: Path = REPOSITORY) -> int:
    """Prints what is too large; returns an exit status."""
    paths = (path for path in list_files(repository) if path.suffix in SUFFIXES and not is_generated(path))
    found = [excess for path in paths for excess in find_excess(path, (repository / path).read_text())]
    for excess in sorted(found, key=lambda excess: excess.is_refused):
        print(excess, file=sys.stderr)
    return 1 if any(excess.is_refused for excess in found) else 0


if __name__ == "__main__":
    sys.exit(main())
