"""An event that two instances heard is taken in once."""

from __future__ import annotations

import pytest

from driver.health.handover import ECHO_S, FORGOTTEN_S, list_events, list_unheard
from driver.health.model import Instance
from driver.health.observations import Observation
from tests.unit.health.observed import GPU, OTHER, after, at, driver, ecc, look, lost, xid


@pytest.mark.parametrize(
    ("seen", "is_new"),
    [
        (xid(13, 10), False),
        (xid(13, 10 + ECHO_S), False),
        (xid(13, 10.1 + ECHO_S), True),
        (xid(13, 8), False),
        (xid(13, 9 - FORGOTTEN_S), True),
        (xid(31, 10), True),
        (xid(13, 10, device=OTHER), True),
        (xid(13, 10, instance=Instance(gpu_instance_id=3)), False),
        (ecc(12), False),
        (ecc(12.1 + ECHO_S), True),
        (look(10), True),
        (lost(10), True),
        (driver("boot-2"), True),
    ],
    ids=[
        "the same", "a little later", "another one", "earlier: the other was slow to hear of it", "a clock was set back",
        "another number", "another GPU", "whichever instance", "memory errors", "memory errors later", "a look", "lost",
        "a boot",
    ],
)  # fmt: skip
def test_an_event_is_known_by_what_it_says_and_when(seen: Observation, *, is_new: bool) -> None:
    heard = after(xid(13, 10), ecc(12)).heard
    assert list_unheard([seen], heard) == ([seen] if is_new else [])


def test_the_last_time_counts() -> None:
    """A program's XID comes again and again; the order in which they are told changes nothing."""
    assert after(xid(13, 1), xid(13, 100), xid(13, 99), ecc(7)).heard == {GPU: {13: at(100), 0: at(7)}}


def test_where_nothing_was_heard_all_is_new() -> None:
    seen: list[Observation] = [xid(13), ecc(), look()]
    assert list_unheard(seen, {}) == seen


def test_only_events_cannot_be_seen_again() -> None:
    assert list_events([driver("boot-1"), look(), lost(), xid(13), ecc()]) == [xid(13), ecc()]


def test_another_boot_or_another_card_forgets_what_was_heard() -> None:
    assert after(driver("boot-1"), xid(13), driver("boot-2")).heard == {}
    assert after(look(0, uuid="GPU-1"), xid(13), look(30, uuid="GPU-2")).heard == {}
