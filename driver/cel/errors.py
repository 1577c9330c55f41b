"""What can go wrong with a selector: it does not compile, or it fails on a device."""

from __future__ import annotations

from dataclasses import dataclass

from driver.errors import DriverError


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a selector: offset and length in characters."""

    start: int
    length: int = 1


class SelectorError(DriverError):
    """The selector does not compile, as Kubernetes would refuse it.

    ``faults`` are all that was found, in the order of the text; ``span`` is the place of the first.
    """

    def __init__(self, source: str, faults: list[tuple[Span, str]]) -> None:
        self.source = source
        self.faults = tuple(sorted(faults, key=lambda fault: fault[0].start))
        self.span = self.faults[0][0]
        super().__init__("\n".join(describe_fault(source, span, text) for span, text in self.faults[:_MOST_SHOWN]))


_MOST_SHOWN = 10


class SelectorRefused(DriverError):
    """The selector compiles, and the API server would still refuse it: too long, or too costly."""


class EvaluationError(DriverError):
    """The selector has no answer for this device. ``&&`` and ``||`` can absorb it."""


class EvaluationAborted(EvaluationError):
    """The evaluation ended at once: its cost went beyond the limit, or Kubernetes would panic here. Nothing absorbs it."""


def describe_fault(source: str, span: Span, text: str) -> str:
    """One fault with line, column, the line itself and a mark below it."""
    before = source[: span.start]
    line_number = before.count("\n") + 1
    line_start = before.rfind("\n") + 1
    column = span.start - line_start
    line = source[line_start:].split("\n", 1)[0]
    shown_from = max(0, column - 60)
    # A tab would move the mark, and any other control character could do anything to a terminal.
    shown = "".join(char if char.isprintable() else " " for char in line[shown_from : shown_from + 120]).rstrip()
    return f"{line_number}:{column + 1}: {text}\n | {shown}\n | {'.' * (column - shown_from)}^"
