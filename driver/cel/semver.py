"""Semantic versions: parsing as strictly as Kubernetes does, and their order."""

from __future__ import annotations

import re
from functools import lru_cache

from driver.cel.errors import EvaluationError
from driver.cel.values import UINT_MAX

_NUMBER = re.compile(r"[0-9]+")
_WORD = re.compile(r"[0-9A-Za-z-]+")


class Semver:
    """A version. Build metadata has no part in order and equality, so it is not kept."""

    __slots__ = ("key", "major", "minor", "patch")

    def __init__(self, major: int, minor: int, patch: int, prerelease: tuple[str, ...] = ()) -> None:
        self.major = major
        self.minor = minor
        self.patch = patch
        # A release comes after its prereleases; a number comes before a word.
        order = tuple((0, int(part), "") if _NUMBER.fullmatch(part) else (1, 0, part) for part in prerelease)
        self.key = (major, minor, patch, not prerelease, order)

    def compare(self, other: Semver) -> int:
        """-1, 0 or 1."""
        return (self.key > other.key) - (self.key < other.key)


@lru_cache(maxsize=4096)
def parse_semver(text: str) -> Semver:
    """A version ``1.2.3-rc.1+build``.

    Raises:
        EvaluationError: no semantic version.
    """
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvaluationError(f"{text[:80]!r} is no semantic version: it needs three numbers, such as 1.2.3")
    rest, plus, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    major, minor, patch_number = (_parse_number(part, text) for part in (parts[0], parts[1], patch))
    words = tuple(prerelease.split(".")) if dash else ()
    for word in words:
        if _WORD.fullmatch(word) is None or (_NUMBER.fullmatch(word) and _parse_number(word, text) < 0):
            raise EvaluationError(f"{text[:80]!r} is no semantic version: {word[:40]!r} is no part of a prerelease")
    if plus and any(_WORD.fullmatch(word) is None for word in build.split(".")):
        raise EvaluationError(f"{text[:80]!r} is no semantic version: its build metadata is wrong")
    return Semver(major, minor, patch_number, words)


def _parse_number(text: str, whole: str) -> int:
    if _NUMBER.fullmatch(text) is None or (len(text) > 1 and text[0] == "0") or len(text) > 20 or int(text) > UINT_MAX:
        raise EvaluationError(f"{whole[:80]!r} is no semantic version: {text[:40]!r} is no number without leading zeros")
    return int(text)


def normalize_semver(text: str) -> str:
    """The version that ``v1.2`` or ``01.02`` stands for, to be parsed strictly.

    Raises:
        EvaluationError: a short version with a prerelease or build metadata.
    """
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1] in tuple("0123456789") else "0" + stripped
    if len(parts) < 3:
        if re.search(r"[+-]", parts[-1]):
            raise EvaluationError(f"{text[:80]!r}: a short version has no prerelease and no build metadata")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)
