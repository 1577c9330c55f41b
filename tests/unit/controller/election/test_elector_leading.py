"""How long a leader may write, and how it ends: contenders stepped by hand, by a clock that stands still."""

from __future__ import annotations

import pytest

from driver.controller.election.elector import Standing
from driver.controller.election.lease import build_taken
from driver.errors import ApiUnreachable, Conflict
from tests.fakes.leases import FakeLeases, ManualClock
from tests.unit.controller.election.contenders import NOON, make_elector, make_leader, make_settings, standing_of

DOWN = ApiUnreachable("PUT lease", 0, "no answer")


class TestLeading:
    def test_writes_end_a_request_before_the_lease_does(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        leader = make_leader(leases, clock)
        clock.now_s += 9.9
        assert leader.may_write()
        clock.now_s += 0.1
        assert not leader.may_write()

    def test_the_lease_counts_from_before_the_renewal_was_sent(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        leader = make_leader(leases, clock)
        clock.now_s += 2

        def take_three_seconds() -> None:
            clock.now_s += 3

        leases.on_write = take_three_seconds
        leader.step()
        clock.now_s += 6.9
        assert leader.may_write()
        clock.now_s += 0.1
        assert not leader.may_write()

    def test_an_outage_shorter_than_the_deadline_costs_nothing(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        leader = make_leader(leases, clock)
        leases.down = DOWN
        for _ in range(4):
            clock.now_s += 2
            leader.step()
            assert standing_of(leader) is Standing.LEADING
        leases.down = None
        clock.now_s += 1
        leader.step()
        assert leader.may_write()

    def test_a_leader_that_cannot_renew_in_time_has_lost(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        leader = make_leader(leases, clock)
        leases.down = DOWN
        start_s = clock.now_s
        while leader.standing is Standing.LEADING:
            clock.now_s += leader.next_wait_s()
            leader.step()
        assert clock.now_s - start_s == pytest.approx(10.0)
        assert leader.trouble == "lost the lease kube-system/gpu-dra-controller: it was not renewed for 10.0 s"

    def test_the_api_back_again_makes_no_leader_of_one_that_lost(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        leader = make_leader(leases, clock)
        clock.now_s += 10
        leader.step()
        leader.step()
        assert (leader.standing, leader.may_write(), leader.next_wait_s()) == (Standing.LOST, False, 0.0)

    def test_a_leader_that_was_stopped_writes_nothing_when_it_wakes(self) -> None:
        """Before its election thread has run even once."""
        leases, clock = FakeLeases(), ManualClock()
        leader = make_leader(leases, clock)
        clock.now_s += 60
        assert (leader.may_write(), leader.standing) == (False, Standing.LOST)

    def test_a_leader_that_was_stopped_does_not_touch_the_next_ones_lease(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        leader, other = make_leader(leases, clock), make_elector(leases, clock, "b")
        other.step()
        clock.now_s += 15
        other.step()
        version = leases.version
        leader.step()
        assert (leader.standing, leases.version) == (Standing.LOST, version)

    def test_somebody_elses_label_costs_no_leadership(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        leader = make_leader(leases, clock)
        leases.touch()
        clock.now_s += 2
        leader.step()
        clock.now_s += 9
        assert (leader.standing, leader.may_write()) == (Standing.LEADING, True)

    def test_a_renewal_whose_answer_was_lost_is_made_good(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        leader = make_leader(leases, clock)
        leases.lost_answers = 1
        clock.now_s += 2
        leader.step()
        clock.now_s += 2
        leader.step()
        clock.now_s += 9
        assert leader.may_write()

    def test_another_holder_in_the_lease_ends_it_at_once(self) -> None:
        """An administrator wrote a name into it, or a clock runs fast."""
        leases, clock = FakeLeases(), ManualClock()
        leader = make_leader(leases, clock)
        assert leases.lease is not None
        leases.replace(build_taken(leases.lease, make_settings("b"), NOON))
        clock.now_s += 2
        leader.step()
        assert standing_of(leader) is Standing.LOST
        assert "b holds it now" in leader.trouble

    def test_a_deleted_lease_ends_it_at_once(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        leader = make_leader(leases, clock)
        leases.lease = None
        clock.now_s += 2
        leader.step()
        assert standing_of(leader) is Standing.LOST
        assert "it was deleted" in leader.trouble

    def test_a_conflict_that_cannot_be_looked_into_is_tried_again(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        leader = make_leader(leases, clock)

        def refuse_and_go_down() -> None:
            leases.down, leases.on_write = DOWN, None
            raise Conflict("PUT lease", 409, "modified")

        leases.on_write = refuse_and_go_down
        clock.now_s += 2
        leader.step()
        assert (leader.standing, leader.trouble) == (Standing.LEADING, "PUT lease: no answer")
        leases.down = None
        clock.now_s += 2
        leader.step()
        assert leader.trouble == ""


class TestReleasing:
    def test_the_next_one_leads_at_once(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        leader, other = make_leader(leases, clock), make_elector(leases, clock, "b")
        leader.release()
        assert (leader.standing, leader.may_write()) == (Standing.RELEASED, False)
        other.step()
        assert other.may_write()

    def test_who_took_over_and_never_led_leaves_the_wait_to_the_next(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        make_leader(leases, clock, "dead")
        between, last = make_elector(leases, clock, "b"), make_elector(leases, clock, "c")
        between.step()
        clock.now_s += 15
        between.step()
        between.release()
        last.step()
        assert (last.standing, last.holder) == (Standing.STANDBY, "b")

    def test_a_standby_leaves_the_lease_alone(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        make_leader(leases, clock)
        other = make_elector(leases, clock, "b")
        other.step()
        version = leases.version
        other.release()
        assert leases.version == version

    def test_a_release_that_fails_is_no_error(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        leader = make_leader(leases, clock)
        leases.down = DOWN
        leader.release()
        assert standing_of(leader) is Standing.RELEASED

    def test_who_lost_stays_lost_and_releases_nothing(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        leader = make_leader(leases, clock)
        clock.now_s += 30
        leader.release()
        assert (leader.standing, leases.holders) == (Standing.LOST, ["a"])


class TestPace:
    def test_contenders_drift_apart(self) -> None:
        elector = make_elector(FakeLeases(), ManualClock())
        waits = {elector.next_wait_s() for _ in range(50)}
        assert len(waits) == 50
        assert all(2.0 <= wait_s <= 4.4 for wait_s in waits)

    def test_a_leader_is_back_at_its_deadline(self) -> None:
        leases, clock = FakeLeases(), ManualClock()
        leader = make_leader(leases, clock)
        assert leader.next_wait_s() == 2.0
        clock.now_s += 9
        assert leader.next_wait_s() == pytest.approx(1.0)
        clock.now_s += 9
        assert leader.next_wait_s() == 0.0
