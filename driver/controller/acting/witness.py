"""Takes in what the watches tell: keeps the mirror in step, and notices what others did to our allocations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from driver import log
from driver.api.resource_v1 import ResourceSlice
from driver.controller.acting.ledger import Ledger, find_node
from driver.controller.intake import Source, Told
from driver.controller.objects.model import Claim, Pod
from driver.controller.objects.ownership import is_ours
from driver.kube.changes import Change, ChangeKind
from driver.kube.watch import Failed, Listed

_LOG = log.logger(__name__)
BY_SCHEDULER = "kube-scheduler took the allocation back"


class Witness:
    """For the decision thread."""

    def __init__(self, ledger: Ledger) -> None:
        cluster = ledger.cluster
        self._ledger = ledger
        self._cluster = cluster
        self._synced: set[Source] = set()
        self.failing: dict[Source, str] = {}
        """Watches that do not work now, and why."""
        self._notes: Mapping[Source, Callable[[Change[Any]], None]] = {
            Source.CLASSES: cluster.note_class,
            Source.RULES: cluster.note_rule,
            Source.NODES: cluster.note_node,
            Source.VOLUMES: cluster.note_volume,
            Source.VOLUME_CLAIMS: cluster.note_volume_claim,
            Source.SLICES: self._note_slice,
        }

    @property
    def missing(self) -> tuple[str, ...]:
        """What was not listed yet: nothing may be decided before it was."""
        return tuple(each.value for each in Source if each not in self._synced)

    def note(self, told: Told, now_s: float) -> None:
        """One thing that a watch said."""
        seen = told.seen
        if isinstance(seen, Failed):
            self.failing[told.source] = str(seen.error)
            self._ledger.metrics.note_watch_failure(told.source.value)
        elif isinstance(seen, Listed):
            self._note_listed(told.source)
        else:
            self.failing.pop(told.source, None)
            self._note_change(told.source, seen, now_s)

    def _note_listed(self, source: Source) -> None:
        self.failing.pop(source, None)
        if source not in self._synced:
            self._synced.add(source)
            if source in {Source.VOLUMES, Source.VOLUME_CLAIMS}:
                self._cluster.volumes.note_listed(claims=source is Source.VOLUME_CLAIMS, volumes=source is Source.VOLUMES)

    def _note_change(self, source: Source, change: Change[Any], now_s: float) -> None:
        if source is Source.CLAIMS:
            self._note_claim(change, now_s)
        elif source is Source.PODS:
            self._note_pod(change, now_s)
        else:
            self._notes[source](change)

    def _note_slice(self, change: Change[ResourceSlice]) -> None:
        self._cluster.note_slice(change)
        self._ledger.note_pool(change.item.spec.pool.name)

    def _note_pod(self, change: Change[Pod], now_s: float) -> None:
        self._cluster.note_pod(change)
        self._ledger.note_pod(change.item, now_s)
        if change.kind is ChangeKind.DELETED or change.item.spec.node_name:
            self._ledger.lessons.forget_pod(change.item.metadata.uid)

    def _note_claim(self, change: Change[Claim], now_s: float) -> None:
        uid = change.item.metadata.uid
        before = self._cluster.claims.get(uid)
        self._cluster.note_claim(change)
        after = self._cluster.claims.get(uid)
        if after is None:
            self._ledger.forget_claim(uid)
            return
        if before is not None and is_ours(before) and after.status.allocation is None:
            self._note_lost(before, now_s)
        self._ledger.note_claim(after, now_s)

    def _note_lost(self, before: Claim, now_s: float) -> None:
        """Somebody else freed a claim of ours. Where a pod still waits for it, that was kube-scheduler: it did not fit."""
        ledger, uid = self._ledger, before.metadata.uid
        if ledger.in_flight.is_taking_back(uid):
            return
        ledger.lessons.rest(uid, now_s)
        pods = ledger.waiting_pods(before)
        if pods:
            node = find_node(before)
            ledger.lessons.learn((each.metadata.uid for each in pods), node, BY_SCHEDULER, now_s)
            ledger.metrics.note_take_back("kube-scheduler")
            ledger.speech.say_taken_back(before, pods, f"{BY_SCHEDULER}: the pod does not fit on node {node}; another is tried")
        log.event(_LOG, log.INFO, "an allocation was freed by others", claim=before.metadata.full_name, waiting=len(pods))
