"""Functions on strings. Offsets count characters; the first cost beyond the limit ends an evaluation, so sizes are watched."""

from __future__ import annotations

from typing import Any

from driver.cel.errors import EvaluationAborted, EvaluationError
from driver.cel.formatting import MOST_CHARACTERS

_GO_SPACES = "\t\n\v\f\r \u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def _check(offset: int, most: int) -> None:
    if not 0 <= offset <= most:
        raise EvaluationError(f"{offset} is out of range: the string has {most} characters")


def char_at(text: str, index: int) -> str:
    """One character; empty at the end."""
    _check(index, len(text))
    return text[index : index + 1]


def index_of(text: str, part: str, start: int = 0) -> int:
    """Where a part begins, from an offset on; -1 if it is not there."""
    if start < 0:
        raise EvaluationError(f"{start} is out of range")
    if not part:
        return min(start, len(text))
    return text.find(part, start) if start < len(text) else -1


def last_index_of(text: str, part: str) -> int:
    """Where a part begins last."""
    if not part:
        return len(text)
    return text.rfind(part)


def last_index_from(text: str, part: str, start: int) -> int:
    """Where a part begins last, at an offset or before it."""
    if start < 0:
        raise EvaluationError(f"{start} is out of range")
    if not part:
        return min(start, len(text))
    if start >= len(text):
        return -1
    return text.rfind(part, 0, start + len(part))


def lower_ascii(text: str) -> str:
    """ASCII letters only."""
    return text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    """ASCII letters only."""
    return text.translate(_UPPER)


def replace(text: str, old: str, new: str, most: int = -1) -> str:
    """With the first so many parts replaced; a negative number is all."""
    found = len(text) + 1 if not old else text.count(old)
    if len(text) + max(0, len(new) - len(old)) * (found if most < 0 else min(found, most)) > MOST_CHARACTERS:
        raise EvaluationAborted("the replaced text is too long")
    return text.replace(old, new, most)


def split(text: str, separator: str, most: int = -1) -> list[str]:
    """The parts between separators, at most so many."""
    if most == 0:
        return []
    if not separator:
        parts = list(text)
        return parts if most < 0 or most >= len(parts) else [*parts[: most - 1], text[most - 1 :]]
    return text.split(separator, most - 1 if most > 0 else -1)


def substring(text: str, start: int) -> str:
    """From an offset on."""
    _check(start, len(text))
    return text[start:]


def substring_range(text: str, start: int, end: int) -> str:
    """From an offset to another."""
    if start > end:
        raise EvaluationError(f"a substring cannot begin at {start} and end at {end}")
    _check(start, len(text))
    _check(end, len(text))
    return text[start:end]


def trim(text: str) -> str:
    """Without white space at both ends."""
    return text.strip(_GO_SPACES)


def join(parts: list[Any], separator: str = "") -> str:
    """The parts with separators between them."""
    if any(type(part) is not str for part in parts):
        raise EvaluationError("only a list of strings can be joined")
    if sum(map(len, parts)) + len(separator) * len(parts) > MOST_CHARACTERS:
        raise EvaluationAborted("the joined text is too long")
    return separator.join(parts)
