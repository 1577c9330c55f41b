"""The time of day, as the node half is given it: one door, so that a test puts another in its place."""

from __future__ import annotations

from datetime import UTC, datetime


def read_now() -> datetime:
    """Now, in UTC."""
    return datetime.now(UTC)
