"""What a claim is told of its devices: only news, of this node's devices alone, and nothing before one is ill."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from driver.api.claim_status_v1 import Condition, DeviceStatus, ReportedClaim, ReportedStatus
from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import Allocation, AllocationResult, Device, DeviceAllocation
from driver.health.model import Health, Kind, Trouble
from driver.names import DeviceName, PoolName
from driver.node.health.claim_conditions import CONDITION, Change, Report, Verdict, Verdicts, build_verdicts, plan_report
from driver.node.words import HealthSeen
from driver.resourceslice.diff import PoolIdentity
from driver.resourceslice.inventory import Inventory, MergedDevices
from tests.unit.node.readings import failure

FIRST, SECOND = DeviceName("gpu-0000-01-00-0"), DeviceName("gpu-0000-02-00-0")
POOL = PoolIdentity(driver="gpu.nvidia.com", pool=PoolName("node-a"), node_name="node-a")
BEFORE, NOW = "2026-12-02T05:00:00Z", "2026-12-02T06:00:00Z"
ILL = Verdict(reason="Xid79", message="XID 79: the GPU fell off the bus", advice="Reboot it.")
ILL_TEXT = "XID 79: the GPU fell off the bus. Reboot it."
OVER_TEXT = "nothing is known to be wrong with it any more"


def entry(device: str = FIRST, *conditions: Condition, share_id: str | None = None, pool: str = "node-a") -> DeviceStatus:
    """An entry of ``status.devices``."""
    return DeviceStatus(driver=POOL.driver, pool=pool, device=device, share_id=share_id, conditions=conditions)


def healthy(*, since: str = BEFORE) -> Condition:
    return Condition(type=CONDITION, status="True", reason="Recovered", message=OVER_TEXT, last_transition_time=since)


def sick(message: str = ILL_TEXT, *, since: str = BEFORE, reason: str = "Xid79") -> Condition:
    return Condition(type=CONDITION, status="False", reason=reason, message=message, last_transition_time=since)


def claim(*said: DeviceStatus, of: tuple[DeviceStatus, ...] = (entry(FIRST), entry(SECOND))) -> ReportedClaim:
    """A claim that was allocated the devices ``of``, and says so much."""
    results = tuple(
        AllocationResult(request="gpus", driver=each.driver, pool=each.pool, device=each.device, share_id=each.share_id)
        for each in of
    )
    status = ReportedStatus(allocation=Allocation(devices=DeviceAllocation(results=results)), devices=said)
    return ReportedClaim(metadata=ObjectMeta(name="c", namespace="team", uid="u"), status=status)


def plan(seen: ReportedClaim, verdicts: Verdicts) -> Report | None:
    return plan_report(seen, verdicts, POOL, now=NOW)


WELL: Verdicts = {FIRST: None, SECOND: None}


@pytest.mark.parametrize(
    ("seen", "verdicts", "expected"),
    [
        pytest.param(claim(), WELL, None, id="never ill: nothing to say"),
        pytest.param(
            claim(),
            {FIRST: ILL, SECOND: None},
            Report(devices=(entry(FIRST, sick(since=NOW)),), changes=(Change(device=FIRST, verdict=ILL),)),
            id="one becomes ill",
        ),
        pytest.param(claim(entry(FIRST, sick())), {FIRST: ILL, SECOND: None}, None, id="said already"),
        pytest.param(
            claim(entry(FIRST, sick())),
            WELL,
            Report(devices=(entry(FIRST, healthy(since=NOW)),), changes=(Change(device=FIRST, verdict=None),)),
            id="well again",
        ),
        pytest.param(claim(entry(FIRST, healthy())), WELL, None, id="said to be well already"),
        pytest.param(
            claim(entry(FIRST, sick("before", reason="Ecc"))),
            {FIRST: ILL, SECOND: None},
            Report(devices=(entry(FIRST, sick(since=BEFORE)),), changes=()),
            id="ill of something else: since the same moment, and no news",
        ),
        pytest.param(
            claim(entry(FIRST, sick())),
            {FIRST: ILL, SECOND: ILL},
            Report(
                devices=(entry(FIRST, sick()), entry(SECOND, sick(since=NOW))), changes=(Change(device=SECOND, verdict=ILL),)
            ),
            id="the other as well: what was said is said again, or it would go",
        ),
        pytest.param(
            claim(entry(FIRST, sick())),
            {SECOND: ILL},
            Report(
                devices=(entry(FIRST, sick()), entry(SECOND, sick(since=NOW))), changes=(Change(device=SECOND, verdict=ILL),)
            ),
            id="one that is not judged keeps what is said of it",
        ),
        pytest.param(claim(of=(entry(FIRST, pool="node-b"),)), {FIRST: ILL}, None, id="another node's device of the same name"),
        pytest.param(ReportedClaim(metadata=ObjectMeta(name="c")), {FIRST: ILL}, None, id="no allocation any more"),
    ],
)
def test_what_is_written(seen: ReportedClaim, verdicts: Verdicts, expected: Report | None) -> None:
    assert plan(seen, verdicts) == expected


def test_two_shares_of_a_device_are_two_entries_and_a_device_in_two_requests_is_one() -> None:
    shares = (entry(FIRST, share_id="a"), entry(FIRST, share_id="b"), entry(SECOND), entry(SECOND))
    report = plan(claim(of=shares), {FIRST: ILL, SECOND: ILL})
    assert report is not None
    assert [(each.device, each.share_id) for each in report.devices] == [(FIRST, "a"), (FIRST, "b"), (SECOND, None)]


def test_what_was_written_is_not_written_again() -> None:
    report = plan(claim(), {FIRST: ILL, SECOND: ILL})
    assert report is not None
    assert plan(claim(*report.devices), {FIRST: ILL, SECOND: ILL}) is None


def test_a_message_without_end_is_cut() -> None:
    """A claim's status must not grow past what the server takes."""
    report = plan(claim(), {FIRST: Verdict(reason="Xid79", message="x" * 100_000)})
    assert report is not None
    assert len(report.devices[0].conditions[0].message) == 4096


def test_others_conditions_are_not_ours_to_say() -> None:
    """What we do not apply is left alone by the server; what we did would become ours."""
    other = Condition(type="Ready", status="True", reason="Set", last_transition_time=BEFORE)
    report = plan(claim(entry(FIRST, other)), {FIRST: ILL})
    assert report is not None
    assert report.devices == (entry(FIRST, sick(since=NOW)),)


def test_a_claim_of_a_server_with_fields_that_we_do_not_know_is_read() -> None:
    text = (
        b'{"metadata":{"name":"c","uid":"u"},"status":{"devices":[{"driver":"nic","pool":"p","device":"d","data":{"a":[1]},'
        b'"networkData":{"ips":["::1/64"]}}],"reservedFor":[{"resource":"pods","name":"p","uid":"7"}]}}'
    )
    read = msgspec.json.decode(text, type=ReportedClaim)
    assert read.status.devices == (DeviceStatus(driver="nic", pool="p", device="d"),)
    assert read.status.reserved_for[0].uid == "7"


def trouble(kind: Kind, value: str = "", *, is_warning: bool = False, message: str = "it broke") -> Trouble:
    return Trouble(
        device=FIRST,
        kind=kind,
        value=value,
        is_warning=is_warning,
        since=datetime(2026, 12, 2, 5, 0, tzinfo=UTC),
        message=message,
        advice="Reset it.",
    )


def judge(*troubles: Trouble, lost: tuple[DeviceName, ...] = ()) -> Verdicts:
    merged = MergedDevices(
        devices=(Device(name=FIRST), Device(name=SECOND)), inventory=Inventory(), lost=lost, withdrawn=(), replaced=()
    )
    return build_verdicts(
        HealthSeen(merged=merged, failures=(failure(1, is_lost=True),), health=Health(troubles=troubles), partitions={})
    )


@pytest.mark.parametrize(
    ("troubles", "expected"),
    [
        ((), None),
        ((trouble(Kind.NVLINK, "down", is_warning=True),), None),
        ((trouble(Kind.XID, "79"),), Verdict(reason="Xid79", message="it broke", advice="Reset it.")),
        ((trouble(Kind.REMAPPED_ROWS, "failed"),), Verdict(reason="RemappedRows", message="it broke", advice="Reset it.")),
        (
            (trouble(Kind.ECC, message="a"), trouble(Kind.THERMAL, is_warning=True), trouble(Kind.RECOVERY, message="b")),
            Verdict(reason="Ecc", message="a; b", advice="Reset it."),
        ),
    ],
    ids=["healthy", "a warning is no illness", "an XID by its number", "a kind as one word", "several, without the warnings"],
)
def test_a_device_is_judged_by_its_troubles(troubles: tuple[Trouble, ...], expected: Verdict | None) -> None:
    assert judge(*troubles) == {FIRST: expected, SECOND: None}


def test_a_device_that_is_gone_is_ill_without_a_trouble() -> None:
    verdict = judge(lost=(SECOND,))[SECOND]
    assert verdict is not None
    assert (verdict.reason, verdict.message.startswith("NVML")) == ("DeviceLost", True)
