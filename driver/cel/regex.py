"""Regular expressions of RE2, as Go has them. The library is loaded with the first pattern."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Protocol

from driver.cel.errors import EvaluationError


class Pattern(Protocol):
    """What is used of a compiled pattern. It works on bytes: offsets and empty matches are those of Go then."""

    def search(self, text: bytes, /) -> Any:
        """The first match."""

    def finditer(self, text: bytes, /) -> Any:
        """All matches."""


# C++ knows one escape more than Go: \C matches a single byte.
_ONE_BYTE = re.compile(r"(?:[^\\]|\\[^C])*?\\C", re.DOTALL)


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern:
    """A compiled pattern.

    Raises:
        EvaluationError: no pattern of RE2.
    """
    import re2  # noqa: PLC0415 - a process that evaluates no pattern does not load it

    if _ONE_BYTE.match(pattern):
        raise EvaluationError(f"{pattern[:80]!r} is no regular expression of RE2: it has no \\C")
    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Pattern = re2.compile(pattern.encode(errors="replace"), options)
    except re2.error as err:
        raise EvaluationError(f"{pattern[:80]!r} is no regular expression of RE2") from err
    return compiled


@lru_cache(maxsize=8192)
def is_match(pattern: str, text: str) -> bool:
    """Whether the pattern is found in the text. Remembered, as product names repeat from device to device."""
    return compile_pattern(pattern).search(text.encode(errors="replace")) is not None


def find(pattern: str, text: str) -> str:
    """The first match, or an empty text."""
    found = compile_pattern(pattern).search(text.encode(errors="replace"))
    return "" if found is None else str(found.group().decode(errors="replace"))


def find_all(pattern: str, text: str, most: int) -> list[str]:
    """All matches from left to right, at most so many; a negative number is no limit."""
    matches: list[str] = []
    last_end = -1
    raw = text.encode(errors="replace")
    for found in compile_pattern(pattern).finditer(raw):
        if 0 <= most <= len(matches):
            break
        start, end = found.span()
        # Go has no empty match right after a match, nor one inside of a character.
        if start == end and (start == last_end or (start < len(raw) and raw[start] & 0xC0 == 0x80)):
            continue
        last_end = found.end()
        matches.append(found.group().decode(errors="replace"))
    return matches
