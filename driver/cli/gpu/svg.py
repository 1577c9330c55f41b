"""Small pieces of SVG, made with nothing but this module: what they draw is readable in every browser."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape as escape_markup

from driver.cli.printable import encode_printable

INK, DIM, PAPER, FRAME, BAND = "#1b2330", "#66707f", "#ffffff", "#2e8b57", "#f3f5f8"
RED, GREEN = "#c92a2a", "#2b8a3e"
STATE_COLOURS = {
    "allocated": ("#4c78a8", "#dbe7f3"),
    "parts": ("#8e5ea2", "#ecdff1"),
    "free": ("#2b8a3e", "#e6f5ea"),
    "unfit": ("#c92a2a", "url(#sick)"),
    "closed": ("#98a1ad", "#e9ecf0"),
    "unknown": ("#98a1ad", "#f7f8fa"),
}
"""Of a GPU by its state: line and fill."""
STATE_WORDS = {
    "allocated": "held by a claim",
    "parts": "parts of it held",
    "free": "free",
    "unfit": "unfit: tainted",
    "closed": "not to be had now",
    "unknown": "not known",
}
_HOLDERS = (
    ("#4c78a8", "#dbe7f3"),
    ("#d97706", "#fdebd0"),
    ("#0f8b8d", "#d5efef"),
    ("#8e5ea2", "#ecdff1"),
    ("#b5507b", "#f7dfe9"),
    ("#7a6a2f", "#f1ecd5"),
    ("#3f51b5", "#dee2f6"),
    ("#6b8e23", "#e8f0d8"),
)
_HATCH = (
    '<defs><pattern id="sick" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="8" height="8" fill="#fdeaea"/><rect width="3" height="8" fill="#f6c9c9"/></pattern></defs>'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle, in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """Of its width."""
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y + self.height

    @property
    def right(self) -> float:
        """The right edge."""
        return self.x + self.width


def escape(words: str) -> str:
    """Words as they may stand in XML, which has no control characters at all."""
    return escape_markup(encode_printable(words))


def build_document(parts: Iterable[str], width: float, height: float, title: str) -> str:
    """A whole SVG document."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="system-ui, Helvetica, Arial, sans-serif" role="img" fill="{INK}">'
    )
    lines = [head, f"<title>{escape(title)}</title>", _HATCH, rect(Box(x=0, y=0, width=width, height=height), fill=PAPER)]
    return "\n".join([*lines, *parts, "</svg>"]) + "\n"


def rect(box: Box, *, fill: str, stroke: str = "none", width: float = 1, radius: float = 0, dash: str = "") -> str:
    """A rectangle."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{radius:.0f}" '
        f'fill="{fill}" stroke="{stroke}" stroke-width="{width}"{dashed}/>'
    )


def text(at: tuple[float, float], words: str, *, size: float = 12, fill: str = INK, weight: str = "", anchor: str = "") -> str:
    """One line of text; ``at`` is a point of its base line."""
    more = (f' font-weight="{weight}"' if weight else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" font-size="{size}" fill="{fill}"{more}>{escape(words)}</text>'


def path(points: str, *, stroke: str, width: float) -> str:
    """A line along an SVG path."""
    return f'<path d="{points}" fill="none" stroke="{stroke}" stroke-width="{width:.1f}" stroke-linecap="round"/>'


def group(parts: Iterable[str], tip: str) -> str:
    """Parts that show a text where the pointer rests on them."""
    return f"<g><title>{escape(tip)}</title>{''.join(parts)}</g>"


def tag(x: float, y: float, words: str) -> list[str]:
    """A small label in the middle of a line."""
    width = 7 * len(words) + 8
    box = Box(x=x - width / 2, y=y - 8, width=width, height=16)
    return [
        rect(box, fill=PAPER, stroke=FRAME, radius=8),
        text((x, y + 4), words, size=10, fill=FRAME, weight="600", anchor="middle"),
    ]


def holder_colours(number: int) -> tuple[str, str]:
    """Line and fill of the n-th claim of a picture."""
    return _HOLDERS[number % len(_HOLDERS)]


def shorten(words: str, most: int) -> str:
    """A text that is too long loses its middle: names differ at both ends."""
    if len(words) <= most:
        return words
    front = (most - 1) // 2
    return f"{words[:front]}…{words[len(words) - (most - 1 - front) :]}"


def build_legend(at: tuple[float, float], states: Iterable[str], fills: Mapping[str, str], *, is_any_sick: bool) -> list[str]:
    """What the colours mean, of those that are there, in one line."""
    parts, (x, y) = [], at
    entries = [(STATE_WORDS[state], STATE_COLOURS[state][0], fills[state]) for state in STATE_COLOURS if state in set(states)]
    if is_any_sick:
        entries.append(("held, and sick", RED, fills["allocated"]))
    for words, line, fill in entries:
        parts.append(rect(Box(x=x, y=y - 11, width=14, height=14), fill=fill, stroke=line, width=2, radius=3))
        parts.append(text((x + 20, y), words, fill=DIM))
        x += 44 + 6.6 * len(words)
    return parts
