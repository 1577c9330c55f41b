"""Which nodes changed since when."""

from __future__ import annotations

from driver.controller.books.change_log import ChangeLog


def test_what_changed_since_a_version_is_known_by_name() -> None:
    log = ChangeLog()
    log.add(["a", "b"])
    version = log.version
    log.add(["c"])
    log.add(["c", "a"])
    assert log.since(version) == frozenset({"c", "a"})
    assert log.since(0) == frozenset({"a", "b", "c"})
    assert log.since(log.version) == frozenset()


def test_what_is_long_ago_is_not_known_any_more() -> None:
    """Then all nodes may have changed; what is nearer is still known."""
    log = ChangeLog()
    log.add(["old"])
    log.add(["many"] * 60_000)
    near = log.version
    log.add(["new"])
    assert log.version == 60_002
    assert log.since(0) is None
    assert log.since(near) == frozenset({"new"})
