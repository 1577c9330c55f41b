"""Time stamps of the API server's."""

from __future__ import annotations

import pytest

from driver.controller.objects.life import format_time, parse_time_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2027-01-15T07:00:00Z", 1_799_996_400.0),
        ("2027-01-15T08:00:00+01:00", 1_799_996_400.0),
        (None, 0.0),
        ("", 0.0),
        ("soon", 0.0),
    ],
    ids=["UTC", "with an offset", "none", "empty", "no time"],
)
def test_time_stamps(text: str | None, seconds: float) -> None:
    assert parse_time_s(text) == seconds


def test_a_time_is_written_in_whole_seconds() -> None:
    assert format_time(1_800_000_000.9) == "2027-01-15T08:00:00Z"
