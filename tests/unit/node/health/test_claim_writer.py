"""When a claim is looked at and written to: news at once, the newest alone, each claim seldom, a refusal ever more seldom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from driver.api.claim_status_v1 import DeviceStatus, ReportedClaim, ReportedStatus
from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import Allocation, AllocationResult, DeviceAllocation
from driver.claims.model import ClaimRef
from driver.claims.record import ClaimRecord, RecordedDevice, State
from driver.errors import ApiError, ApiUnreachable, Conflict, Forbidden, Invalid, NotFound
from driver.names import DeviceName, PoolName
from driver.node.health.claim_book import PACE_S
from driver.node.health.claim_conditions import Change, Verdict, Verdicts
from driver.node.health.claim_writer import (
    FORBIDDEN_S,
    LOOK_S,
    MISSING_AFTER,
    REFUSED_S,
    REST_S,
    ClaimHealthWriter,
    WriterPorts,
)
from driver.resourceslice.diff import PoolIdentity

POOL = PoolIdentity(driver="gpu.nvidia.com", pool=PoolName("node-a"), node_name="node-a")
A, B = DeviceName("gpu-0000-01-00-0"), DeviceName("gpu-0000-02-00-0")
ILL, WORSE = Verdict(reason="Xid79", message="off the bus"), Verdict(reason="Ecc", message="two bits")
WELL: Verdicts = {A: None, B: None}


def uid_of(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def record(number: int, *devices: str, state: State = State.PREPARE_COMPLETED) -> ClaimRecord:
    made = tuple(
        RecordedDevice(request="gpus", pool="node-a", device=each, uuid="GPU-1", cdi_device_ids=("a/b=c",)) for each in devices
    )
    return ClaimRecord(state=state, namespace="team", name=f"claim-{number}", uid=uid_of(number), devices=made)


def stored(held: ClaimRecord, uid: str = "") -> ReportedClaim:
    results = tuple(
        AllocationResult(request="gpus", driver=POOL.driver, pool=POOL.pool, device=each.device) for each in held.devices
    )
    metadata = ObjectMeta(name=held.name, namespace="team", uid=uid or held.uid, resource_version="1")
    return ReportedClaim(
        metadata=metadata, status=ReportedStatus(allocation=Allocation(devices=DeviceAllocation(results=results)))
    )


@dataclass
class Desk:
    """The records, the server's claims, and the writer between them, on a clock that is moved by hand."""

    records: list[ClaimRecord] = field(default_factory=list)
    claims: dict[str, ReportedClaim] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    told: list[tuple[str, tuple[Change, ...]]] = field(default_factory=list)
    refuse_read: ApiError | None = None
    refuse_write: ApiError | None = None
    forbidden: frozenset[str] = frozenset()
    leads: bool = True
    keeps_none: bool = False
    now_s: float = 1000.0

    def __post_init__(self) -> None:
        self.writer = self.begin()

    def begin(self) -> ClaimHealthWriter:
        """A new process."""
        ports = WriterPorts(
            pool=POOL,
            api=self,
            read_records=lambda: tuple(self.records),
            tell=lambda claim, changes: self.told.append((claim.metadata.name, tuple(changes))),
            read_now=lambda: datetime(2026, 12, 2, 6, tzinfo=UTC) + timedelta(seconds=self.now_s),
            leads=lambda: self.leads,
        )
        self.writer = ClaimHealthWriter(ports, clock=lambda: self.now_s)
        return self.writer

    def hold(self, *records: ClaimRecord) -> None:
        self.records += records
        self.claims |= {each.name: stored(each) for each in records}

    def read(self, ref: ClaimRef) -> ReportedClaim:
        self.reads.append(ref.name)
        if self.refuse_read is not None:
            raise self.refuse_read
        if ref.name not in self.claims:
            raise NotFound("GET", 404, "gone")
        return self.claims[ref.name]

    def apply(self, claim: ReportedClaim, devices: Sequence[DeviceStatus]) -> ReportedClaim:
        self.writes.append(claim.metadata.name)
        if self.refuse_write is not None:
            raise self.refuse_write
        if claim.metadata.name in self.forbidden:
            raise Forbidden("PATCH", 403, "a policy says no")
        if self.keeps_none:
            return claim
        now = msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, devices=tuple(devices)))
        self.claims[claim.metadata.name] = now
        return now

    def settle(self, verdicts: Verdicts, *, within_s: float = 3.0) -> float | None:
        """Let the writer work for so long; how long it then wants to sleep."""
        self.writer.note(verdicts)
        end_s = self.now_s + within_s
        while True:
            wait_s = self.writer.step()
            if wait_s is None or self.now_s + wait_s > end_s:
                return wait_s
            assert wait_s > 0, "a hot loop"
            self.now_s += wait_s

    def statuses(self) -> dict[str, dict[str, str]]:
        return {
            name: {each.device: each.conditions[0].status for each in claim.status.devices}
            for name, claim in self.claims.items()
        }


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_before_the_devices_are_known_nothing_is_asked(desk: Desk) -> None:
    desk.hold(record(1, A))
    assert desk.writer.step() is None
    assert desk.reads == []


def test_a_start_looks_at_each_claim_once_and_a_healthy_node_sleeps(desk: Desk) -> None:
    desk.hold(record(1, A), record(2, B))
    assert desk.settle(WELL) is None
    assert (sorted(desk.reads), desk.writes) == (["claim-1", "claim-2"], [])
    desk.hold(record(3, A))
    assert desk.settle(WELL) is None
    assert len(desk.reads) == 2


def test_only_the_claim_of_the_sick_device_is_touched(desk: Desk) -> None:
    desk.hold(record(1, A), record(2, B))
    desk.settle(WELL)
    desk.reads.clear()
    assert desk.settle({A: ILL, B: None}) == LOOK_S
    assert (desk.reads, desk.writes) == (["claim-1"], ["claim-1"])
    assert desk.statuses() == {"claim-1": {A: "False"}, "claim-2": {}}
    assert desk.told == [("claim-1", (Change(device=A, verdict=ILL),))]


def test_a_claim_that_comes_to_a_sick_device_is_told(desk: Desk) -> None:
    """It tolerates the taint, or was on its way."""
    desk.settle({A: ILL, B: None})
    desk.hold(record(1, A))
    desk.settle({A: ILL, B: None}, within_s=LOOK_S + 1)
    assert desk.statuses() == {"claim-1": {A: "False"}}


def test_a_device_that_comes_and_goes_costs_one_write_in_the_pace_and_the_last_state_wins(desk: Desk) -> None:
    desk.hold(record(1, A))
    for _ in range(100):
        desk.settle({A: ILL, B: None}, within_s=0.25)
        desk.settle(WELL, within_s=0.25)
    assert len(desk.writes) <= 1 + 50 / PACE_S
    desk.settle({A: WORSE, B: None}, within_s=PACE_S + 1)
    assert desk.claims["claim-1"].status.devices[0].conditions[0].reason == "Ecc"


def test_a_new_process_writes_nothing_that_is_said_and_ends_what_is_over(desk: Desk) -> None:
    desk.hold(record(1, A))
    desk.settle({A: ILL, B: None})
    desk.begin()
    desk.settle({A: ILL, B: None})
    assert desk.writes == ["claim-1"]
    desk.begin()
    desk.settle(WELL)
    assert desk.statuses() == {"claim-1": {A: "True"}}
    assert [changes[0].verdict for _, changes in desk.told] == [ILL, None]


def _gone(desk: Desk) -> None:
    desk.claims.clear()


def _another(desk: Desk) -> None:
    desk.claims["claim-1"] = stored(desk.records[0], uid=uid_of(9))


@pytest.mark.parametrize("change", [_gone, _another], ids=["gone", "another uid"])
def test_a_claim_that_is_not_the_records_is_never_written(desk: Desk, change: Callable[[Desk], None]) -> None:
    desk.hold(record(1, A))
    change(desk)
    desk.settle({A: ILL, B: None}, within_s=200)
    assert (desk.reads, desk.writes, desk.told) == (["claim-1"], [], [])


@pytest.mark.parametrize("state", [State.PREPARE_STARTED, State.UNPREPARE_STARTED])
def test_a_claim_that_is_on_its_way_is_left_alone(desk: Desk, state: State) -> None:
    desk.hold(record(1, A, state=state))
    desk.settle({A: ILL, B: None}, within_s=100)
    assert desk.reads == []


def test_without_the_right_a_few_claims_are_tried_and_then_one_now_and_then(desk: Desk) -> None:
    """A missing right is missing for all."""
    desk.hold(*(record(number, A) for number in range(1, 51)))
    desk.refuse_write = Forbidden("PATCH", 403, "no")
    desk.settle({A: ILL, B: None}, within_s=FORBIDDEN_S * 3.5)
    assert len(desk.writes) == MISSING_AFTER + 3
    desk.refuse_write = None
    desk.settle({A: ILL, B: None}, within_s=FORBIDDEN_S + 51 * (REST_S + 0.01))
    assert len(desk.statuses()) == 50
    assert all(each == {A: "False"} for each in desk.statuses().values())


def test_a_claim_that_is_forbidden_alone_holds_up_no_other_and_is_said_once(
    desk: Desk, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A policy's no, or a claim that is another node's by now."""
    desk.hold(*(record(number, A) for number in range(1, 11)))
    desk.forbidden = frozenset({"claim-1", "claim-6"})
    desk.settle({A: ILL, B: None}, within_s=FORBIDDEN_S * 3.5)
    assert {name for name, said in desk.statuses().items() if said == {}} == desk.forbidden
    assert len(desk.writes) == 8 + 4 * len(desk.forbidden)
    said = capsys.readouterr().err + caplog.text
    assert said.count("may not be told") == len(desk.forbidden)
    desk.forbidden = frozenset()
    desk.settle({A: ILL, B: None}, within_s=FORBIDDEN_S)
    assert all(said == {A: "False"} for said in desk.statuses().values())


def test_an_instance_that_does_not_lead_writes_nothing_and_looks_at_all_once_it_does(desk: Desk) -> None:
    """Two instances would tell the pods twice; what the other one wrote is not known."""
    desk.hold(record(1, A), record(2, B))
    desk.settle({A: ILL, B: None})
    desk.leads = False
    assert desk.settle(WELL, within_s=LOOK_S * 3) == LOOK_S
    assert desk.statuses() == {"claim-1": {A: "False"}, "claim-2": {}}
    desk.reads.clear()
    desk.leads = True
    desk.settle(WELL, within_s=LOOK_S)
    assert sorted(desk.reads) == ["claim-1", "claim-2"]
    assert desk.statuses() == {"claim-1": {A: "True"}, "claim-2": {}}


def test_a_claim_that_the_server_finds_fault_with_holds_up_no_other(desk: Desk) -> None:
    desk.hold(record(1, A))
    desk.refuse_write = Invalid("PATCH", 422, "no")
    desk.settle({A: ILL, B: None})
    desk.refuse_write = None
    desk.hold(record(2, A))
    desk.settle({A: ILL, B: None}, within_s=LOOK_S + 1)
    assert desk.statuses() == {"claim-1": {}, "claim-2": {A: "False"}}
    desk.settle({A: ILL, B: None}, within_s=REFUSED_S + 1)
    assert desk.statuses()["claim-1"] == {A: "False"}
    assert [name for name, _ in desk.told] == ["claim-1", "claim-2"]


def test_a_server_that_is_down_is_asked_ever_more_seldom_for_one_claim(desk: Desk) -> None:
    desk.hold(*(record(number, A) for number in range(1, 51)))
    desk.refuse_read = ApiUnreachable("GET", 0, "refused")
    desk.settle({A: ILL, B: None}, within_s=600)
    assert len(desk.reads) < 120
    desk.refuse_read = None
    desk.settle(WELL, within_s=120)
    assert desk.writes == []


def test_a_conflict_is_tried_again_from_what_the_claim_is_then(desk: Desk) -> None:
    desk.hold(record(1, A))
    desk.refuse_write = Conflict("PATCH", 409, "modified")
    desk.settle({A: ILL, B: None})
    assert 2 <= len(desk.writes) <= 4
    desk.refuse_write = None
    desk.settle({A: ILL, B: None})
    assert desk.statuses() == {"claim-1": {A: "False"}}
    assert len(desk.told) == 1


def test_a_server_that_keeps_no_status_of_devices_is_asked_no_more(desk: Desk) -> None:
    """The gate is off: what is written is dropped without a word."""
    desk.keeps_none = True
    desk.hold(record(1, A), record(2, A))
    assert desk.settle({A: ILL, B: None}) is None
    assert desk.writes == ["claim-1"]


def test_a_claim_that_went_is_forgotten_and_another_with_its_name_starts_afresh(desk: Desk) -> None:
    desk.hold(record(1, A))
    desk.settle({A: ILL, B: None})
    desk.records.clear()
    desk.settle({A: ILL, B: None}, within_s=LOOK_S + 1)
    again = msgspec.structs.replace(record(2, A), name="claim-1")
    desk.hold(again)
    desk.settle({A: ILL, B: None}, within_s=LOOK_S + 1)
    assert desk.claims["claim-1"].metadata.uid == uid_of(2)
    assert desk.statuses() == {"claim-1": {A: "False"}}
