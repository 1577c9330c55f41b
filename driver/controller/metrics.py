"""The controller's metrics, all of them, by name: what they count, and which labels they have.

No label's value comes from a user: outcomes, reasons and causes are of short lists, and a value that is not known counts as
``other``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from driver.controller.books.occupancy import Occupancy
from driver.controller.deciding.decision import LeaveAlone, Place, Wait
from driver.metrics.pages import Page
from driver.metrics.registry import FewValues, build_registry, render_page

_FAST_S = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_WRITE_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_WAIT_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 36000.0)


class WaitReason(enum.Enum):
    """Why claims wait, as far as it can be counted."""

    POD = "pod"
    """The pod's own selectors, taints, volumes or requests exclude every node."""
    UNMATCHED = "unmatched"
    """No device of any node matches."""
    FULL = "full"
    """Fewer matching devices are free than are needed."""
    FRAGMENTED = "fragmented"
    """Enough are free, and they have not in common what they must: an island, a node."""
    TOGETHER = "together"
    """Each request would fit, all of them fit nowhere."""


def classify_wait(wait: Wait) -> WaitReason:
    """The reason by the nearest miss."""
    miss = wait.miss
    if miss is None or not miss.nodes:
        return WaitReason.POD
    if miss.free + miss.taken == 0:
        return WaitReason.UNMATCHED
    if miss.is_together:
        return WaitReason.TOGETHER
    return WaitReason.FULL if miss.free < max(1, miss.need) else WaitReason.FRAGMENTED


class ControllerMetrics:
    """Any thread may note anything."""

    def __init__(self) -> None:
        self.registry = registry = build_registry("controller")
        self._add_decisions(registry)
        self._add_writes(registry)
        self._add_fleet(registry)
        for reason in WaitReason:
            self._waiting.labels(reason.value).set(0)
        self._causes = FewValues()
        self._writes = FewValues()
        self._failures = FewValues()
        self._resources = FewValues()

    def _add_decisions(self, registry: CollectorRegistry) -> None:
        self._decisions = Counter(
            "gpu_dra_decisions",
            "Decisions: placed, left_alone, fault (somebody has to mend a claim, a class, a policy); waits are counted apart",
            ["outcome"],
            registry=registry,
        )
        self._waits = Counter(
            "gpu_dra_waits",
            "How often the reason was looked for why pods wait, and told them; reasons as of gpu_dra_waiting_claims",
            ["reason"],
            registry=registry,
        )
        self._decision_s = Histogram(
            "gpu_dra_decision_seconds", "How long one decision took", buckets=_FAST_S, registry=registry
        )
        self._waiting = Gauge(
            "gpu_dra_waiting_claims",
            "Claims that wait now: pod, unmatched, full, fragmented, together (controller.md)",
            ["reason"],
            registry=registry,
        )
        self._oldest_s = Gauge("gpu_dra_oldest_waiting_seconds", "How long the oldest of them waits", registry=registry)

    def _add_writes(self, registry: CollectorRegistry) -> None:
        self._write_s = Histogram(
            "gpu_dra_write_seconds",
            "How long a write to the API server took: finalizer, allocation, guard, take_back",
            ["write"],
            buckets=_WRITE_S,
            registry=registry,
        )
        self._placed_s = Histogram(
            "gpu_dra_placement_seconds",
            "From a pod's creation until its claims were allocated by us",
            buckets=_WAIT_S,
            registry=registry,
        )
        self._write_failures = Counter(
            "gpu_dra_write_failures",
            "Writes that failed, by why: conflict, gone, refused, unreachable",
            ["why"],
            registry=registry,
        )
        self._queued = Gauge(
            "gpu_dra_queued_messages", "News and answers that the deciding thread has not taken in yet", registry=registry
        )
        self._writing = Gauge(
            "gpu_dra_writes_in_flight", "Demands that are being written: place, take_back", ["write"], registry=registry
        )
        self._held = Gauge(
            "gpu_dra_held_nodes", "1 while a node is kept free for a claim that has waited long", registry=registry
        )
        self._take_backs = Counter(
            "gpu_dra_take_backs", "Allocations taken back, by us or by kube-scheduler, by cause", ["cause"], registry=registry
        )
        self._doubles = Counter("gpu_dra_doubles", "Devices that were found in two claims", registry=registry)
        self._watch_failures = Counter(
            "gpu_dra_watch_failures", "Lists and watches that failed, by resource", ["resource"], registry=registry
        )

    def _add_fleet(self, registry: CollectorRegistry) -> None:
        self._gpus = Gauge(
            "gpu_dra_gpus",
            "Whole GPUs: fenced ones free, allocated (a GPU in parts is), unavailable; and unfenced",
            ["state"],
            registry=registry,
        )
        self._devices = Gauge("gpu_dra_allocated_devices", "Fenced devices of every kind that a claim has", registry=registry)
        self._island = Gauge("gpu_dra_largest_free_island_gpus", "The most free GPUs on one NVLink island", registry=registry)
        self._nodes = Gauge("gpu_dra_fenced_nodes", "Nodes with fenced devices", registry=registry)
        self._leader = Gauge("gpu_dra_leader", "1 while this process leads", registry=registry)

    def note_decision(self, decision: Place | LeaveAlone, *, took_s: float) -> None:
        """One decision was made."""
        self._decision_s.observe(took_s)
        match decision:
            case Place():
                outcome = "placed"
            case LeaveAlone():
                outcome = "fault" if decision.is_fault else "left_alone"
        self._decisions.labels(outcome).inc()

    def note_wait(self, reason: WaitReason) -> None:
        """Pods were told why they wait."""
        self._waits.labels(reason.value).inc()

    def set_waiting(self, claims: Mapping[WaitReason, int], *, oldest_s: float) -> None:
        """So many claims wait now; ``oldest_s`` is 0 where none does."""
        for reason in WaitReason:
            self._waiting.labels(reason.value).set(claims.get(reason, 0))
        self._oldest_s.set(oldest_s)

    def note_write(self, write: str, *, took_s: float) -> None:
        """A write to the API server succeeded: ``finalizer``, ``allocation``, ``guard``, ``take_back``."""
        self._write_s.labels(self._writes.bound(write)).observe(took_s)

    def note_write_failure(self, why: str) -> None:
        """A write failed: ``conflict``, ``gone``, ``refused``, ``unreachable``."""
        self._write_failures.labels(self._failures.bound(why)).inc()

    def note_placed(self, *, waited_s: float) -> None:
        """All claims of a demand are written."""
        self._placed_s.observe(waited_s)

    def note_take_back(self, cause: str) -> None:
        """An allocation was taken back, by us or by kube-scheduler."""
        self._take_backs.labels(self._causes.bound(cause)).inc()

    def note_double(self) -> None:
        """A device was found in two claims."""
        self._doubles.inc()

    def note_watch_failure(self, resource: str) -> None:
        """A list or watch failed."""
        self._watch_failures.labels(self._resources.bound(resource)).inc()

    def set_occupancy(self, occupancy: Occupancy) -> None:
        """The fleet's figures now."""
        for state in ("free", "allocated", "unavailable", "unfenced"):
            self._gpus.labels(state).set(getattr(occupancy, state))
        self._devices.set(occupancy.devices)
        self._island.set(occupancy.largest_free_island)
        self._nodes.set(occupancy.nodes)

    def set_work(self, *, queued: int, places: int, take_backs: int) -> None:
        """What is to be taken in, and what is being written now."""
        self._queued.set(queued)
        self._writing.labels("place").set(places)
        self._writing.labels("take_back").set(take_backs)

    def set_holding(self, *, is_holding: bool) -> None:
        """Whether a node is kept for somebody."""
        self._held.set(1 if is_holding else 0)

    def set_leader(self, *, leads: bool) -> None:
        """Whether this process leads now."""
        self._leader.set(1 if leads else 0)

    def page(self, accept: str) -> Page:
        """Everything, in the form that the scraper asks for."""
        return render_page(self.registry, accept)
