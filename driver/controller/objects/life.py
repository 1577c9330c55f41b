"""When an object began, and whether a pod has ended."""

from __future__ import annotations

from datetime import UTC, datetime

from driver.api.meta_v1 import encode_time

ENDED = ("Succeeded", "Failed")
"""Phases of pods that have ended: they use nothing any more, and never will again."""


def parse_time_s(text: str | None) -> float:
    """Unix seconds of a time stamp of the API's; 0 for none and for what is none: it counts as old, and waits for nobody."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except ValueError:
        return 0.0


def format_time(unix_s: float) -> str:
    """A time stamp as the API writes it, in whole seconds."""
    return encode_time(datetime.fromtimestamp(unix_s, UTC))
