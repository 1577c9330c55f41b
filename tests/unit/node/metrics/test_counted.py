"""What is counted as it happens."""

from __future__ import annotations

import threading

import pytest
from prometheus_client import CollectorRegistry

from driver import errors
from driver.node.metrics.counted import CountedFigures, classify_claim_error, classify_publish_error
from tests.unit.node.metrics.page import read_page


class Counted:
    """The figures, with a clock that a test moves."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.now_s = 100.0
        self.figures = CountedFigures(self.registry, clock=lambda: self.now_s, now_s=lambda: 1_790_000_000.0)

    def page(self) -> dict[str, float]:
        return read_page(self.registry)

    def step(self, name: str, took_s: float) -> None:
        self.figures.note_step(name)
        self.now_s += took_s


@pytest.fixture
def counted() -> Counted:
    return Counted()


def test_a_claim_that_was_prepared(counted: Counted) -> None:
    with counted.figures.measure("prepare"):
        assert counted.page()['gpu_dra_node_claims_in_flight{operation="prepare"}'] == 1
        counted.now_s += 0.03
    page = counted.page()
    assert page['gpu_dra_node_claim_seconds_count{operation="prepare",outcome="ok"}'] == 1
    assert page['gpu_dra_node_claim_seconds_bucket{le="0.025",operation="prepare",outcome="ok"}'] == 0
    assert page['gpu_dra_node_claim_seconds_bucket{le="0.05",operation="prepare",outcome="ok"}'] == 1
    assert page['gpu_dra_node_claims_in_flight{operation="prepare"}'] == 0
    assert not [name for name in page if name.startswith("gpu_dra_node_claim_failures")]


def test_a_claim_that_failed_says_why_and_the_error_goes_on(counted: Counted) -> None:
    with pytest.raises(errors.DeviceInUse), counted.figures.measure("prepare"):
        raise errors.DeviceInUse("taken")
    page = counted.page()
    assert page['gpu_dra_node_claim_failures_total{operation="prepare",reason="in_use"}'] == 1
    assert page['gpu_dra_node_claim_seconds_count{operation="prepare",outcome="error"}'] == 1
    assert page['gpu_dra_node_claims_in_flight{operation="prepare"}'] == 0


def test_each_step_lasts_until_the_next(counted: Counted) -> None:
    with counted.figures.measure("prepare"):
        counted.now_s += 0.004
        counted.step("prepare:metadata", 0.02)
        counted.step("prepare:cdi-file", 0.2)
        counted.step("prepare:done", 30)
    page = counted.page()
    sums = {name: value for name, value in page.items() if name.startswith("gpu_dra_node_step_seconds_sum")}
    assert sums == {
        'gpu_dra_node_step_seconds_sum{operation="prepare",step="begin"}': pytest.approx(0.004),
        'gpu_dra_node_step_seconds_sum{operation="prepare",step="metadata"}': pytest.approx(0.02),
        'gpu_dra_node_step_seconds_sum{operation="prepare",step="cdi-file"}': pytest.approx(0.2),
    }


def test_the_step_in_which_a_claim_failed_is_not_taken_for_a_step_of_the_next(counted: Counted) -> None:
    def fail() -> None:
        with counted.figures.measure("prepare"):
            counted.step("prepare:metadata", 5)
            raise errors.StateUnwritable("disk full")

    with pytest.raises(errors.StateUnwritable):
        fail()
    counted.now_s += 1000
    with counted.figures.measure("unprepare"):
        counted.now_s += 0.002
    page = counted.page()
    assert page['gpu_dra_node_step_seconds_sum{operation="unprepare",step="begin"}'] == pytest.approx(0.002)
    assert not [name for name in page if 'step="metadata"' in name]


def test_steps_outside_of_a_call_are_not_counted(counted: Counted) -> None:
    """Repair and cleanup take the same steps, at their own pace."""
    counted.step("unprepare:delete-cdi-file", 3)
    counted.step("unprepare:done", 3)
    assert not [name for name in counted.page() if name.startswith("gpu_dra_node_step_seconds")]


def test_threads_do_not_mix_up_their_steps(counted: Counted) -> None:
    with counted.figures.measure("prepare"):
        counted.step("prepare:metadata", 1)
        other = threading.Thread(target=lambda: counted.figures.note_step("prepare:cdi-file"))
        other.start()
        other.join()
        counted.step("prepare:done", 0)
    assert 'gpu_dra_node_step_seconds_sum{operation="prepare",step="metadata"}' in counted.page()
    assert not [name for name in counted.page() if "cdi-file" in name]


def test_steps_stay_few_whatever_they_are_called(counted: Counted) -> None:
    for number in range(200):
        with counted.figures.measure("prepare"):
            counted.step(f"prepare:step-{number}", 0)
            counted.step("prepare:done", 0)
    assert len({name for name in counted.page() if name.startswith("gpu_dra_node_step_seconds_sum")}) <= 41


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.ClaimNotFound(""), "claim"),
        (errors.ClaimReplaced(""), "claim"),
        (errors.ClaimNotAllocated(""), "claim"),
        (errors.ForeignPool(""), "unknown_device"),
        (errors.UnknownDevice(""), "unknown_device"),
        (errors.DeviceInUse(""), "in_use"),
        (errors.DeviceNotReady(""), "not_ready"),
        (errors.ClaimBusy(""), "busy"),
        (errors.MigRefused(""), "mig"),
        (errors.RecordUnreadable(""), "disk"),
        (errors.StateUnwritable(""), "disk"),
        (errors.ConfigInvalid("", ()), "config"),
        (errors.ApiUnreachable("GET", 0, ""), "api"),
        (errors.NvmlError("nvmlInit", 9, "DRIVER_NOT_LOADED"), "nvml"),
        (errors.ClaimError(""), "other"),
        (KeyError("x"), "fault"),
        (KeyboardInterrupt(), "fault"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_every_error_has_a_short_reason(error: BaseException, reason: str) -> None:
    assert classify_claim_error(error) == reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.Conflict("PUT", 409, ""), "conflict"),
        (errors.Forbidden("PUT", 403, ""), "forbidden"),
        (errors.Invalid("PUT", 422, ""), "invalid"),
        (errors.TooManyRequests("PUT", 429, ""), "api"),
        (errors.StateUnwritable(""), "disk"),
        (ValueError(""), "fault"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_publishing_fails_for_short_reasons(counted: Counted, error: Exception, reason: str) -> None:
    assert classify_publish_error(error) == reason
    counted.figures.note_publish_failure(error)
    assert counted.page()[f'gpu_dra_node_publish_failures_total{{reason="{reason}"}}'] == 1


def test_writes_and_the_last_success(counted: Counted) -> None:
    assert counted.page()["gpu_dra_node_publish_success_timestamp_seconds"] == 0
    counted.figures.note_writes(3)
    counted.figures.note_writes(1)
    counted.figures.note_published()
    page = counted.page()
    assert page["gpu_dra_node_slice_writes_total"] == 4
    assert page["gpu_dra_node_publish_success_timestamp_seconds"] == 1_790_000_000
