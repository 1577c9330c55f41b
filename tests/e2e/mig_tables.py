"""MIG by board, as NVIDIA's tools list it on hardware (``nvidia-smi mig -lgip``, ``-lgipp``): what the driver is held to.

Written down apart from the mock's own tables. Where no hardware was seen, a figure is left out here.
"""

from __future__ import annotations

from dataclasses import dataclass

Layout = tuple[int, ...]
"""Profiles' numbers, all on one GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A row of ``-lgip`` with its places of ``-lgipp``."""

    text: str
    number: int
    starts: tuple[int, ...]
    size: int
    gib: float | None = None
    multiprocessors: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardTable:
    """What one board can be divided into."""

    board: str
    needs_reset: bool
    """MIG mode changes only with a reset of the GPU: nothing of ours may ever switch it."""
    profiles: tuple[Profile, ...]
    legal: tuple[Layout, ...]
    illegal: tuple[Layout, ...]


_SEVENTHS = tuple(range(7))
_LEGAL_OF_8: tuple[Layout, ...] = (
    (19,) * 7,
    (15,) * 4,
    (14, 14, 14, 19),
    (9, 9),
    (5, 9),
    (5, 19, 19, 19),
    (9, 14, 19, 20),
    (0,),
)
_ILLEGAL_OF_8: tuple[Layout, ...] = (
    (19,) * 8,  # slice 7 is no place of 1g
    (20, 20),
    (14,) * 4,
    (9, 9, 19),  # two of 3g have all memory slices
    (5, 5),
    (5, 9, 19),
    (0, 19),
)


def _eighths(board: str, texts: str, gib: tuple[float | None, ...], sms: tuple[int | None, ...], *, reset: bool) -> BoardTable:
    """A board of the 8-slice family: 1g, 1g with twice the memory, 2g, 3g, 4g, 7g."""
    one, double, two, three, four, seven = texts.split()
    rows = (
        (one, 19, _SEVENTHS, 1, gib[0], sms[0]),
        (f"{one}+me", 20, _SEVENTHS, 1, gib[0], sms[0]),
        (double, 15, (0, 2, 4, 6), 2, gib[1], sms[1]),
        (two, 14, (0, 2, 4), 2, gib[1], sms[2]),
        (three, 9, (0, 4), 4, gib[2], sms[3]),
        (four, 5, (0,), 4, gib[2], sms[4]),
        (seven, 0, (0,), 8, gib[3], sms[5]),
    )
    return _table(board, rows, reset=reset, legal=_LEGAL_OF_8, illegal=_ILLEGAL_OF_8)


def _table(
    board: str,
    rows: tuple[tuple[str, int, tuple[int, ...], int, float | None, int | None], ...],
    *,
    reset: bool,
    legal: tuple[Layout, ...],
    illegal: tuple[Layout, ...],
) -> BoardTable:
    profiles = tuple(
        Profile(text=text, number=number, starts=starts, size=size, gib=gib, multiprocessors=sms)
        for text, number, starts, size, gib, sms in rows
    )
    return BoardTable(board=board, needs_reset=reset, profiles=profiles, legal=legal, illegal=illegal)


_A100, _HOPPER = (14, 14, 28, 42, 56, 98), (16, 26, 32, 60, 64, 132)
_QUARTERS, _HALVES, _WHOLE = (0, 3, 6, 9), (0, 6), (0,)

A30 = _table(
    "a30",
    (
        ("1g.6gb", 14, (0, 1, 2, 3), 1, None, None),
        ("1g.6gb+me", 21, (0, 1, 2, 3), 1, None, None),
        ("2g.12gb", 5, (0, 2), 2, None, None),
        ("2g.12gb+me", 6, (0, 2), 2, None, None),
        ("4g.24gb", 0, (0,), 4, None, None),
    ),
    reset=True,
    legal=((14,) * 4, (5, 5), (5, 14, 14), (21, 14, 14, 14), (6, 5), (0,)),
    illegal=((14,) * 5, (5, 5, 14), (5, 5, 5), (21, 21), (6, 6), (0, 14)),
)

RTX_PRO_6000 = _table(
    "rtx-pro-6000-se",
    (
        ("1g.24gb", 14, _QUARTERS, 3, 23.62, 46),
        ("1g.24gb+me", 21, _QUARTERS, 3, 23.62, 46),
        ("1g.24gb+gfx", 47, _QUARTERS, 3, 23.62, 46),
        ("1g.24gb+me.all", 65, _QUARTERS, 3, 23.62, 46),
        ("1g.24gb-me", 67, _QUARTERS, 3, 23.62, 46),
        ("2g.48gb", 5, _HALVES, 6, 47.38, 94),
        ("2g.48gb+gfx", 35, _HALVES, 6, 47.38, 94),
        ("2g.48gb+me.all", 64, _HALVES, 6, 47.38, 94),
        ("2g.48gb-me", 66, _HALVES, 6, 47.38, 94),
        ("4g.96gb", 0, _WHOLE, 12, 95.0, 188),
        ("4g.96gb+gfx", 32, _WHOLE, 12, 95.0, 188),
    ),
    reset=False,
    legal=((14,) * 4, (47,) * 4, (5, 14, 14), (35, 35), (65, 67, 67, 67), (64, 66), (0,)),
    illegal=((14,) * 5, (5, 5, 14), (5,) * 3, (21, 21), (65, 65), (64, 64), (0, 67)),
)

TABLES: tuple[BoardTable, ...] = (
    _eighths("a100-sxm4-40gb", "1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb", (4.75, 9.62, 19.5, 39.25), _A100, reset=True),
    _eighths("a100-sxm4-80gb", "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb", (9.62, 19.5, 39.25, 78.5), _A100, reset=True),
    _eighths(
        "h100-sxm5-80gb", "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb", (9.75, 19.62, 39.5, 79.25), _HOPPER, reset=False
    ),
    _eighths(
        "h200-sxm5-141gb", "1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb", (16.0, 32.25, 69.5, None), _HOPPER, reset=False
    ),
    _eighths(
        "b200",
        "1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
        (22.0, 44.25, None, None),
        (18, 30, 36, None, None, None),
        reset=False,
    ),
    A30,
    RTX_PRO_6000,
)
