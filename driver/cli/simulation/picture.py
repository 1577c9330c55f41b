"""Occupancy and waits over time, as SVG text: made with nothing but this module, readable in every browser."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from driver.cli.simulation.replay import Sample
from driver.cli.simulation.show import format_seconds

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _GAP = 960, 520, 64, 16, 48, 56
_PLOT_HEIGHT = (_HEIGHT - _TOP - 2 * _GAP) // 2
_PLOT_WIDTH = _WIDTH - _LEFT - _RIGHT
_COLUMNS = 446
_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#9c755f", "#edc948")


@dataclass(frozen=True, slots=True)
class _Column:
    """The most of everything within one column of the picture."""

    used: int
    waiting: dict[int, int]


def draw_picture(samples: Sequence[Sample], *, gpus: int, title: str) -> str:
    """An SVG document: above the GPUs in use, below the GPUs that waiting pods ask for, by size of request."""
    columns = _columns(samples)
    sizes = sorted({size for column in columns for size in column.waiting})
    most = max((_asked(column.waiting) for column in columns), default=0) or 1
    second = _TOP + _PLOT_HEIGHT + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
        *_frame(_TOP, gpus, "GPUs in use"),
        _area([column.used for column in columns], [0] * len(columns), gpus, _TOP, _COLOURS[0]),
        *_frame(second, most, "GPUs that waiting pods ask for"),
    ]
    below = [0] * len(columns)
    for number, size in enumerate(sizes):
        above = [low + column.waiting.get(size, 0) * size for low, column in zip(below, columns, strict=True)]
        parts.append(_area(above, below, most, second, _colour(number)))
        below = above
    parts += [*_legend(sizes, second), *_time_axis(samples, second + _PLOT_HEIGHT), "</svg>"]
    return "\n".join(parts) + "\n"


def _columns(samples: Sequence[Sample]) -> list[_Column]:
    if not samples:
        return []
    times = [sample.at_s for sample in samples]
    step = (times[-1] - times[0]) / _COLUMNS or 1.0
    columns = []
    for number in range(_COLUMNS):
        first = max(0, bisect_right(times, times[0] + number * step) - 1)
        within = samples[first : max(first + 1, bisect_right(times, times[0] + (number + 1) * step))]
        worst = max(within, key=lambda sample: _asked(sample.waiting))
        columns.append(_Column(max(sample.used for sample in within), worst.waiting))
    return columns


def _asked(waiting: dict[int, int]) -> int:
    return sum(size * count for size, count in waiting.items())


def _area(above: Sequence[int], below: Sequence[int], most: int, top: int, colour: str) -> str:
    def point(column: int, value: int) -> str:
        x = _LEFT + column * _PLOT_WIDTH / max(1, len(above) - 1)
        return f"{x:.1f},{top + _PLOT_HEIGHT - value * _PLOT_HEIGHT / most:.1f}"

    line = [point(column, value) for column, value in enumerate(above)]
    line += [point(column, below[column]) for column in reversed(range(len(below)))]
    return f'<polygon points="{" ".join(line)}" fill="{colour}" fill-opacity="0.85"/>'


def _frame(top: int, most: int, label: str) -> list[str]:
    bottom = top + _PLOT_HEIGHT
    parts = [f'<text x="{_LEFT}" y="{top - 8}">{escape(label)}</text>']
    for value in (0, most // 2, most):
        y = bottom - value * _PLOT_HEIGHT / most
        parts.append(f'<line x1="{_LEFT}" x2="{_LEFT + _PLOT_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ccc"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value}</text>')
    return parts


def _legend(sizes: Sequence[int], top: int) -> list[str]:
    parts = []
    for number, size in enumerate(sizes):
        x = _LEFT + 220 + number * 72
        parts.append(f'<rect x="{x}" y="{top - 18}" width="12" height="12" fill="{_colour(number)}"/>')
        parts.append(f'<text x="{x + 16}" y="{top - 8}">{size} GPU{"" if size == 1 else "s"}</text>')
    return parts


def _time_axis(samples: Sequence[Sample], bottom: int) -> list[str]:
    lasts_s = samples[-1].at_s - samples[0].at_s if samples else 0.0
    return [
        f'<text x="{_LEFT + part * _PLOT_WIDTH / 4:.0f}" y="{bottom + 20}" text-anchor="{anchor}">'
        f"{format_seconds(lasts_s * part / 4)}</text>"
        for part, anchor in enumerate(("start", "middle", "middle", "middle", "end"))
    ]


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]
