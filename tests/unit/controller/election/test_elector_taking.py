"""Who gets the lease, and from when it may write: contenders stepped by hand, by a clock that stands still."""

from __future__ import annotations

import pytest

from driver.api.meta_v1 import ObjectMeta
from driver.controller.election.elector import Standing
from driver.controller.election.lease import Lease, LeaseSpec
from driver.errors import Forbidden
from tests.fakes.leases import FakeLeases, ManualClock
from tests.unit.controller.election.contenders import make_elector, make_leader, standing_of


class TestTakingTheLease:
    def test_a_released_lease_is_led_at_once(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        leader = make_leader(leases, clock)
        assert leader.may_write()
        assert leader.holder == "a"

    def test_the_first_lease_of_all_is_waited_for_like_a_lost_one(self) -> None:
        """A lease that is not there may have been deleted under a leader."""
        leases, clock = FakeLeases(), ManualClock()
        elector = make_elector(leases, clock)
        elector.step()
        assert standing_of(elector) is Standing.TAKING_OVER
        assert not elector.may_write()
        for _ in range(9):
            clock.now_s += 2
            elector.step()
        assert standing_of(elector) is Standing.TAKING_OVER
        clock.now_s += 2
        elector.step()
        assert (elector.standing, elector.may_write()) == (Standing.LEADING, True)

    def test_a_holder_that_renews_is_never_overtaken(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        leader, other = make_leader(leases, clock), make_elector(leases, clock, "b")
        for _ in range(100):
            clock.now_s += 2
            leader.step()
            other.step()
        assert (leader.standing, other.standing, other.holder) == (Standing.LEADING, Standing.STANDBY, "a")
        assert leases.holders == ["a"]

    def test_a_holder_that_is_silent_for_a_lease_is_followed(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        make_leader(leases, clock)
        other = make_elector(leases, clock, "b")
        other.step()
        clock.now_s += 14.9
        other.step()
        assert standing_of(other) is Standing.STANDBY
        clock.now_s += 0.1
        other.step()
        assert standing_of(other) is Standing.TAKING_OVER

    def test_who_follows_a_silent_holder_writes_a_lease_and_a_request_later(self) -> None:
        """R28."""
        leases, clock = FakeLeases(), ManualClock()
        make_leader(leases, clock)
        other = make_elector(leases, clock, "b")
        other.step()
        clock.now_s += 15
        other.step()
        taken_s = clock.now_s
        while not other.may_write():
            clock.now_s += min(other.next_wait_s(), 1.0)
            other.step()
        assert clock.now_s - taken_s == pytest.approx(20.0)

    def test_the_holders_wall_clock_does_not_matter(self) -> None:
        """A renewTime of last year, from a clock that is wrong, is a change like any other."""
        leases, clock = FakeLeases(), ManualClock()
        spec = LeaseSpec(holder_identity="b", lease_duration_seconds=15, renew_time="2020-01-01T00:00:00.000000Z")
        leases.lease = Lease(metadata=ObjectMeta(name="gpu-dra-controller", resource_version="9"), spec=spec)
        elector = make_elector(leases, clock)
        elector.step()
        clock.now_s += 14
        elector.step()
        assert standing_of(elector) is Standing.STANDBY

    def test_the_time_that_the_holder_claims_counts_not_ours(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        spec = LeaseSpec(holder_identity="b", lease_duration_seconds=60)
        leases.lease = Lease(metadata=ObjectMeta(name="gpu-dra-controller", resource_version="9"), spec=spec)
        elector = make_elector(leases, clock)
        elector.step()
        clock.now_s += 59
        elector.step()
        assert standing_of(elector) is Standing.STANDBY
        clock.now_s += 1
        elector.step()
        assert standing_of(elector) is Standing.TAKING_OVER

    def test_two_that_take_at_once_have_one_winner(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        first, second = make_elector(leases, clock, "a"), make_elector(leases, clock, "b")
        leases.lease = Lease(metadata=ObjectMeta(name="gpu-dra-controller", resource_version="0"))

        def let_the_other_be_quicker() -> None:
            leases.on_write = None
            second.step()

        leases.on_write = let_the_other_be_quicker
        first.step()
        assert (first.standing, second.standing) == (Standing.STANDBY, Standing.LEADING)

    def test_two_that_create_at_once_have_one_winner(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        first, second = make_elector(leases, clock, "a"), make_elector(leases, clock, "b")

        def let_the_other_be_quicker() -> None:
            leases.on_write = None
            second.step()

        leases.on_write = let_the_other_be_quicker
        first.step()
        assert (first.standing, second.standing) == (Standing.STANDBY, Standing.TAKING_OVER)

    def test_a_restarted_container_takes_its_own_lease_and_waits_for_a_request_only(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        make_leader(leases, clock)
        restarted = make_elector(leases, clock)
        restarted.step()
        assert standing_of(restarted) is Standing.TAKING_OVER
        assert restarted.next_wait_s() == 2.0
        clock.now_s += 5
        restarted.step()
        assert restarted.may_write()

    def test_a_takeover_whose_answer_was_lost_waits_for_the_holder_before(self) -> None:
        """It finds its own name in the lease, and must not take that for a lease of its own from before."""
        leases, clock = FakeLeases(), ManualClock()
        make_leader(leases, clock, "b")
        elector = make_elector(leases, clock)
        elector.step()
        clock.now_s += 15
        leases.lost_answers = 1
        elector.step()
        assert (elector.standing, leases.holders) == (Standing.STANDBY, ["b", "a"])
        elector.step()
        clock.now_s += 8
        elector.step()
        clock.now_s += 8
        elector.step()
        assert standing_of(elector) is Standing.TAKING_OVER
        clock.now_s += 4
        elector.step()
        assert standing_of(elector) is Standing.LEADING

    def test_who_may_not_read_the_lease_stands_by_and_says_so(self) -> None:
        leases, clock = FakeLeases(down=Forbidden("GET lease", 403, "no")), ManualClock()
        elector = make_elector(leases, clock)
        elector.step()
        assert (elector.standing, elector.trouble) == (Standing.STANDBY, "GET lease: 403 no")
        leases.down = None
        elector.step()
        assert elector.trouble == ""
