"""What is counted as it happens: claims, their steps, writes of slices. Any thread may note anything; it costs microseconds.

No label's value comes from a user: operations, steps and reasons are of short lists, and one too many counts as ``other``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from driver.errors import (
    ApiError,
    ClaimBusy,
    ClaimNotAllocated,
    ClaimNotFound,
    ClaimReplaced,
    ConfigInvalid,
    Conflict,
    DeviceInUse,
    DeviceNotReady,
    DriverError,
    Forbidden,
    ForeignPool,
    Invalid,
    MigRefused,
    NvmlError,
    RecordUnreadable,
    StateUnwritable,
    UnknownDevice,
)
from driver.metrics.registry import FewValues

_CLAIM_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_STEP_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
_MOST_STEPS = 40
BEGIN = "begin"
"""The first step: the lock, the record, the claim from the API server, the plan."""
_DONE = "done"
OPERATIONS = ("prepare", "unprepare")

_CLAIM_REASONS: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((ClaimNotFound, ClaimReplaced, ClaimNotAllocated), "claim"),
    ((ForeignPool, UnknownDevice), "unknown_device"),
    ((DeviceInUse,), "in_use"),
    ((DeviceNotReady,), "not_ready"),
    ((ClaimBusy,), "busy"),
    ((MigRefused,), "mig"),
    ((RecordUnreadable, StateUnwritable), "disk"),
    ((ConfigInvalid,), "config"),
    ((ApiError,), "api"),
    ((NvmlError,), "nvml"),
    ((DriverError,), "other"),
)
_PUBLISH_REASONS: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((Conflict,), "conflict"),
    ((Forbidden,), "forbidden"),
    ((Invalid,), "invalid"),
    ((ApiError,), "api"),
    ((StateUnwritable,), "disk"),
)
FAULT = "fault"
"""An error that nobody foresaw."""


def classify_claim_error(error: BaseException) -> str:
    """The label's value for why a claim was not prepared or unprepared."""
    return next((reason for kinds, reason in _CLAIM_REASONS if isinstance(error, kinds)), FAULT)


def classify_publish_error(error: BaseException) -> str:
    """The label's value for why slices were not written."""
    return next((reason for kinds, reason in _PUBLISH_REASONS if isinstance(error, kinds)), FAULT)


class _Running(threading.local):
    """The step that this thread takes, and since when; empty outside of a claim's work."""

    step = ""
    since_s = 0.0


class CountedFigures:
    """Counters, histograms and gauges that are told."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        clock: Callable[[], float] = time.perf_counter,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._now_s = now_s
        self._running = _Running()
        self._steps = FewValues(most=_MOST_STEPS)
        self._add_claims(registry)
        self._add_publishing(registry)

    def _add_claims(self, registry: CollectorRegistry) -> None:
        self._claim_s = Histogram(
            "gpu_dra_node_claim_seconds",
            "How long the work for one claim took, locks included: prepare, unprepare; ok, error",
            ["operation", "outcome"],
            buckets=_CLAIM_S,
            registry=registry,
        )
        self._failures = Counter(
            "gpu_dra_node_claim_failures",
            "Claims that were not prepared or unprepared, by why: claim, unknown_device, in_use, not_ready, busy, mig, disk,"
            " config, api, nvml, other, fault",
            ["operation", "reason"],
            registry=registry,
        )
        self._step_s = Histogram(
            "gpu_dra_node_step_seconds",
            "How long each step of that work took; begin is all before the first write: lock, record, claim, plan",
            ["operation", "step"],
            buckets=_STEP_S,
            registry=registry,
        )
        self._in_flight = Gauge(
            "gpu_dra_node_claims_in_flight", "Claims that are being worked on now", ["operation"], registry=registry
        )
        self._in_flight_of = {each: self._in_flight.labels(each) for each in OPERATIONS}
        self._claim_s_of = {(each, word): self._claim_s.labels(each, word) for each in OPERATIONS for word in ("ok", "error")}
        self._step_s_of: dict[tuple[str, str], Histogram] = {}
        """By the step's own name: looking a label up costs more than counting."""

    def _add_publishing(self, registry: CollectorRegistry) -> None:
        self._writes = Counter("gpu_dra_node_slice_writes", "Slices created, updated or deleted", registry=registry)
        self._publish_failures = Counter(
            "gpu_dra_node_publish_failures",
            "Tries to publish that failed, by why: conflict, forbidden, invalid, api, disk, fault",
            ["reason"],
            registry=registry,
        )
        self._published = Gauge(
            "gpu_dra_node_publish_success_timestamp_seconds",
            "When the slices were last seen to be as they should be; 0 before",
            registry=registry,
        )

    @contextmanager
    def measure(self, operation: str) -> Iterator[None]:
        """Around the work for one claim (``claims.prepare.Measure``)."""
        started = self._clock()
        running = self._running
        running.step, running.since_s = BEGIN, started
        in_flight = self._in_flight_of[operation]
        in_flight.inc()
        outcome = "error"
        try:
            yield
            outcome = "ok"
            self._end_step(operation)
        except BaseException as err:
            self._failures.labels(operation, classify_claim_error(err)).inc()
            raise
        finally:
            running.step = ""
            in_flight.dec()
            self._claim_s_of[operation, outcome].observe(self._clock() - started)

    def note_step(self, name: str) -> None:
        """A step begins (``claims.effects.OnStep``): ``prepare:cdi-file``. Outside of ``measure`` it is not counted."""
        if not self._running.step:
            return
        operation, _, step = name.partition(":")
        self._end_step(operation)
        self._running.step, self._running.since_s = step, self._clock()

    def note_writes(self, count: int) -> None:
        """So many slices were written."""
        self._writes.inc(count)

    def note_published(self) -> None:
        """The slices are as they should be."""
        self._published.set(self._now_s())

    def note_publish_failure(self, error: BaseException) -> None:
        """A try to publish failed."""
        self._publish_failures.labels(classify_publish_error(error)).inc()

    def _end_step(self, operation: str) -> None:
        if self._running.step != _DONE:
            took_s = self._clock() - self._running.since_s
            key = operation, self._running.step
            step_s = self._step_s_of.get(key) or self._step_s.labels(operation, self._steps.bound(self._running.step))
            if len(self._step_s_of) < _MOST_STEPS:
                self._step_s_of[key] = step_s
            step_s.observe(took_s)
