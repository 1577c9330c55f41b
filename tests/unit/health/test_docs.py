"""The page follows from the tables."""

from __future__ import annotations

from driver.health.model import Kind
from driver.health.xids import XIDS
from hack.checks.tree import REPOSITORY
from hack.docs.health import render_health_page


def test_the_page_is_the_one_that_follows_from_the_code() -> None:
    """Run ``make docs`` when this fails."""
    assert (REPOSITORY / "docs" / "health.md").read_text(encoding="utf-8") == render_health_page()


def test_every_xid_and_kind_is_on_it() -> None:
    page = render_health_page()
    assert [xid.number for xid in XIDS if f"\n| {xid.number} | " not in page] == []
    assert [kind for kind in Kind if f"\n| `{kind.value}` | " not in page] == []
