"""What is being written, and for how long."""

from __future__ import annotations

import msgspec
import pytest

from driver.controller.books.demands import Demand
from driver.controller.writing.claim_steps import Placing
from driver.controller.writing.fence import Acknowledgement, PoolWrites
from driver.controller.writing.in_flight import InFlight
from driver.controller.writing.writer import AcknowledgeJob, Job, PlaceJob, ResolveJob, SettleJob, TakeBackJob
from tests.unit.controller.objects.test_ownership import ONE, claim
from tests.unit.controller.writing.test_claim_steps import MARK, OURS, WANT

DEMAND = Demand(key="key", pods=(), claims=(claim(),), node=None, priority=0, since_s=0.0)
PLACE = PlaceJob(demand=DEMAND, node="node-a", placings=(WANT,))
RESOLVE = ResolveJob(placing=WANT)
LATER_S = 100.0


@pytest.fixture
def submitted() -> list[Job]:
    return []


@pytest.fixture
def pools() -> PoolWrites:
    return PoolWrites(0.0)


@pytest.fixture
def in_flight(submitted: list[Job], pools: PoolWrites) -> InFlight:
    return InFlight("gpu.nvidia.com", submitted.append, pools)


def test_a_claim_is_busy_until_its_job_ends(in_flight: InFlight, submitted: list[Job]) -> None:
    in_flight.begin(PLACE)
    assert (in_flight.is_busy("uid"), in_flight.places, submitted) == (True, 1, [PLACE])
    in_flight.end(PLACE, 1.0)
    assert (in_flight.is_busy("uid"), in_flight.places) == (False, 0)


def test_a_claim_with_a_guard_is_busy_with_those_of_its_pod(in_flight: InFlight) -> None:
    guarded = msgspec.structs.replace(OURS, metadata=msgspec.structs.replace(OURS.metadata, uid="guarded"))
    in_flight.begin(PlaceJob(demand=DEMAND, node="node-a", placings=(WANT,), guarded=(guarded,)))
    assert in_flight.is_busy("guarded")


def test_no_node_leaves_with_a_pool_that_is_written_for(in_flight: InFlight, pools: PoolWrites) -> None:
    in_flight.begin(PLACE)
    assert not pools.is_quiet("node-a", LATER_S)
    assert pools.is_quiet("node-b", LATER_S)
    in_flight.end(PLACE, 1.0)
    assert pools.is_quiet("node-a", LATER_S)


def test_a_take_back_is_known_as_ours(in_flight: InFlight, pools: PoolWrites) -> None:
    job = TakeBackJob(claim=claim(ONE, mark=MARK), why="idle")
    in_flight.begin(job)
    assert (in_flight.is_taking_back("uid"), in_flight.take_backs, pools.is_quiet("node-a", LATER_S)) == (True, 1, False)
    in_flight.end(job, 1.0)
    assert (in_flight.is_taking_back("uid"), in_flight.take_backs, pools.is_quiet("node-a", LATER_S)) == (False, 0, True)


def test_a_guard_alone_concerns_no_pool(in_flight: InFlight, pools: PoolWrites) -> None:
    in_flight.begin(SettleJob(claim=OURS, users=()))
    assert pools.is_quiet("node-a", LATER_S)


def test_a_doubt_keeps_claim_and_pool_and_is_asked_less_and_less_often(
    in_flight: InFlight, submitted: list[Job], pools: PoolWrites
) -> None:
    in_flight.begin(PLACE)
    in_flight.doubt(RESOLVE, 0.0)
    in_flight.end(PLACE, 0.0)
    waits = []
    now_s = 0.0
    for _ in range(7):
        assert in_flight.is_busy("uid")
        assert not pools.is_quiet("node-a", now_s + LATER_S)
        wait_s = in_flight.next_resolve_s(now_s)
        assert wait_s is not None
        waits.append(wait_s)
        now_s += wait_s
        in_flight.resolve_due(now_s)
        in_flight.resolve_due(now_s)
        assert in_flight.next_resolve_s(now_s) is None, "asked once"
        in_flight.doubt(RESOLVE, now_s)
        in_flight.end(RESOLVE, now_s)
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert submitted == [PLACE, *[RESOLVE] * 7]


def test_a_doubt_ends_when_it_is_known_what_became_of_it(in_flight: InFlight, pools: PoolWrites) -> None:
    in_flight.begin(PLACE)
    in_flight.doubt(RESOLVE, 0.0)
    in_flight.end(PLACE, 0.0)
    in_flight.resolve_due(1.0)
    in_flight.end(RESOLVE, 1.0)
    assert not in_flight.is_busy("uid")
    assert pools.is_quiet("node-a", LATER_S)
    assert in_flight.next_resolve_s(2.0) is None


def test_a_node_is_told_once_at_a_time_that_it_may_leave(in_flight: InFlight, submitted: list[Job]) -> None:
    job = AcknowledgeJob(acknowledgement=Acknowledgement(node="node-a", node_uid="uid", time_added="then"))
    in_flight.acknowledge(job)
    in_flight.acknowledge(job)
    assert submitted == [job]
    in_flight.end_acknowledge(job)
    in_flight.acknowledge(job)
    assert submitted == [job, job]


def test_devices_of_other_drivers_concern_no_pool_of_ours(in_flight: InFlight, pools: PoolWrites) -> None:
    other = msgspec.structs.replace(WANT.allocation.devices.results[0], driver="nic.example.com")
    devices = msgspec.structs.replace(WANT.allocation.devices, results=(other,))
    allocation = msgspec.structs.replace(WANT.allocation, devices=devices)
    placing = Placing(claim=WANT.claim, allocation=allocation, consumers=())
    in_flight.begin(PlaceJob(demand=DEMAND, node="node-a", placings=(placing,)))
    assert pools.is_quiet("node-a", LATER_S)
