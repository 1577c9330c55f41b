"""Keeps the node's pool on the API server equal to what was last given to ``publish``, for as long as the process lives.

Two threads: one reads our own watch, one writes. The writer sleeps until there is a reason: new content, a change by somebody
else (the kubelet deletes a node's slices when it restarts), or a new registration. A reason that turns out to need no write
costs no request at all.

States: *waiting* (nothing was published yet, or the server was not listed yet), *published* (all in its place), *failing* (the
last try failed, the next comes by itself), *yielded* (a newer instance publishes), *refused* (another driver of our name).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from driver import log
from driver.api.resource_v1 import ResourceSlice
from driver.errors import ApiError, Forbidden, Invalid, StateUnwritable
from driver.kube.changes import Change
from driver.kube.client import KubeClient
from driver.kube.resources import RESOURCE_SLICES, Selection
from driver.kube.watch import Failed, Listed, Watcher
from driver.resourceslice.compare import is_same_content, name_dropped_fields
from driver.resourceslice.content import SliceContent
from driver.resourceslice.diff import PoolIdentity, WritePlan, content_of, parse_name_index, plan_writes
from driver.resourceslice.other_publisher import detect_other_publisher
from driver.resourceslice.pace import Pace, PaceSettings
from driver.resourceslice.pool_state import PoolState
from driver.resourceslice.publish_reports import PublisherReports, PublishState, PublishStatus, Settled
from driver.resourceslice.publisher_lock import PublisherLock
from driver.resourceslice.slice_writer import Sink, SliceWriter, Yielded

_LOG = log.logger(__name__)

_WATCH_AGAIN_S = 5.0
_INVALID_WAIT_S = 300.0
"""What the server refused as invalid is sent again as it is only because the server may be replaced."""


class Publisher:
    """Publishes one pool. ``publish``, ``resync`` and the questions may be called from any thread."""

    def __init__(
        self,
        client: KubeClient,
        identity: PoolIdentity,
        *,
        lock: PublisherLock,
        reports: PublisherReports,
        pace: PaceSettings | None = None,
        rng: random.Random | None = None,
    ) -> None:
        rng = rng or random.Random()  # noqa: S311  spreads load, keeps no secret
        self._identity = identity
        self._lock = lock
        self._reports = reports
        self._writer = SliceWriter(client, lock, node_name=identity.node_name)
        fields = f"spec.driver={identity.driver},spec.nodeName={identity.node_name}"
        self._watcher = Watcher(client, RESOURCE_SLICES, Selection(field_selector=fields), rng=rng)
        self._wake = threading.Condition()
        self._pace = Pace(pace or PaceSettings(), clock=time.monotonic, rng=rng)
        self._pool = PoolState(identity.pool)
        self._desired: tuple[SliceContent, ...] | None = None
        self._adopted: dict[int, tuple[SliceContent, SliceContent]] = {}
        self._said: set[str] = set()
        self._status = PublishStatus()
        self._is_acting = False
        self._is_stopped = False
        self._threads = (
            threading.Thread(target=self._run_watch, name="slice-watch", daemon=True),
            threading.Thread(target=self._run_writer, name="slice-writer", daemon=True),
        )

    def start(self) -> None:
        """Begin to watch; nothing is written before the first ``publish``."""
        for thread in self._threads:
            thread.start()

    def publish(self, contents: Sequence[SliceContent]) -> None:
        """What the pool should hold from now on, slice by slice. The same again is no reason to act."""
        with self._wake:
            if tuple(contents) != self._desired:
                self._desired = tuple(contents)
                self._pace.ask_now()
                self._wake.notify_all()

    def resync(self) -> None:
        """Compare again now, also what the server dropped: the kubelet has registered us, and the server may be a newer one."""
        with self._wake:
            self._adopted.clear()
            self._pace.ask_now()
            self._wake.notify_all()

    def status(self) -> PublishStatus:
        """Where it stands now."""
        with self._wake:
            return self._status

    def is_published(self) -> bool:
        """Whether the pool is in place, by our hand or by a newer instance's."""
        return self.status().state in {PublishState.PUBLISHED, PublishState.YIELDED}

    def read_settled(self) -> Settled | None:
        """What was last given to ``publish``, and what the API server made of it, once it is in place by our own hand."""
        with self._wake:
            if not self._is_done() or self._status.state is not PublishState.PUBLISHED:
                return None
            return Settled(
                asked=tuple(device for content in self._desired or () for device in content.devices),
                stored=tuple(device for each in self._pool.slices for device in each.spec.devices),
            )

    def wait_published(self, timeout_s: float) -> bool:
        """Wait until what was last given to ``publish`` is in place; False when it is not in time."""
        with self._wake:
            return self._wake.wait_for(self._is_done, timeout_s)

    def stop(self, timeout_s: float = 2.0) -> None:
        """Stop both threads, and let an older instance publish again. The slices stay: pods go on, and restarts are quick."""
        with self._wake:
            self._is_stopped = True
            self._wake.notify_all()
        self._watcher.stop()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(timeout_s)
        if not any(thread.is_alive() for thread in self._threads):
            self._lock.release()  # else the process's end does it, after the request that hangs

    def _is_done(self) -> bool:
        is_settled = self._desired is not None and self._pace.wait_s() is None and not self._is_acting
        return is_settled and self._status.state in {PublishState.PUBLISHED, PublishState.YIELDED}

    def _run_watch(self) -> None:
        while not self._is_stopped:
            try:
                for seen in self._watcher.changes():
                    self._take(seen)
            except Exception as err:  # noqa: BLE001  the outermost frame of this thread: without it nothing comes back
                log.event(_LOG, log.ERROR, "watching slices failed as nobody expected; listing anew", error=err, exc=err)
                self._watcher.forget_version()
                with self._wake:
                    self._wake.wait_for(lambda: self._is_stopped, _WATCH_AGAIN_S)
                    self._pace.ask_now()  # the news that it failed on may have been a reason
                    self._wake.notify_all()

    def _take(self, seen: Change[ResourceSlice] | Listed | Failed) -> None:
        with self._wake:
            if self._note(seen):
                self._pace.ask_soon()
                self._wake.notify_all()

    def _note(self, seen: Change[ResourceSlice] | Listed | Failed) -> bool:
        match seen:
            case Change():
                return self._pool.note_change(seen)
            case Listed():
                return self._pool.note_listing(seen)
        if self._status.state is PublishState.WAITING:
            self._status = replace(self._status, error=str(seen.error))
        return False

    def _run_writer(self) -> None:
        while self._wait_for_reason():
            try:
                status = self._sync()
            except Yielded:
                status = PublishStatus(state=PublishState.YIELDED)
            except (ApiError, StateUnwritable) as err:
                status = self._fail(err)
            except Exception as err:  # noqa: BLE001  the outermost frame of this thread: without it nothing is published again
                log.event(_LOG, log.ERROR, "publishing failed as nobody expected", error=err, exc=err)
                status = self._fail(err)
            with self._wake:
                self._status = status
                self._is_acting = False
                self._wake.notify_all()
            if status.state is PublishState.PUBLISHED:
                self._reports.settled()

    def _wait_for_reason(self) -> bool:
        """True when it is time to compare; False when it is time to end."""
        with self._wake:
            while not self._is_stopped:
                wait_s = self._pace.wait_s()
                is_able = self._desired is not None and self._pool.is_listed
                if is_able and wait_s is not None and wait_s <= 0:
                    self._pace.begin()
                    self._is_acting = True
                    return True
                self._wake.wait(wait_s if is_able else None)
            return False

    def _sync(self) -> PublishStatus:
        """One round: compare, and write what differs."""
        with self._wake:
            existing, desired, floor = self._pool.slices, self._desired or (), self._pool.highest_generation
            wanted = tuple(self._adopt(index, content) for index, content in enumerate(desired))
        reason = detect_other_publisher(existing)
        if reason is not None:
            return self._refuse(reason)
        self._lock.acquire()
        if not self._lock.is_held():
            raise Yielded
        plan = plan_writes(existing, wanted, self._identity, generation_floor=floor, first_generation=int(time.time()))
        if not plan.is_empty and not self._reports.allows(desired):
            return PublishStatus(error="whose the devices are is decided anew")
        if not plan.is_empty and not self._carry_out(plan):
            return replace(self.status(), state=PublishState.FAILING, error="others change the slices at the same time")
        with self._wake:
            self._pace.succeed()
        devices = sum(len(content.devices) for content in wanted)
        return PublishStatus(
            state=PublishState.PUBLISHED, generation=plan.generation, slices=max(1, len(wanted)), devices=devices
        )

    def _carry_out(self, plan: WritePlan) -> bool:
        """False when this has to be planned again: at once after a conflict, later after too many rounds."""
        with self._wake:
            if not self._pace.take_token():
                return False
        if not self._writer.write(plan, Sink(stored=self._note_stored, deleted=self._note_deleted, refreshed=self._refresh)):
            with self._wake:
                self._pace.ask_soon()
            return False
        self._reports.wrote(len(plan.deletes) + len(plan.updates) + len(plan.creates))
        counts = f"{len(plan.deletes)} deleted, {len(plan.updates)} updated, {len(plan.creates)} created"
        log.event(_LOG, log.INFO, "published slices", pool=self._identity.pool, generation=plan.generation, slices=counts)
        return True

    def _adopt(self, index: int, content: SliceContent) -> SliceContent:
        """The content, or the form of it that the server stored when it was sent just this."""
        sent, stored = self._adopted.get(index, (None, content))
        return stored if sent == content else content

    def _note_stored(self, sent: ResourceSlice, stored: ResourceSlice) -> None:
        asked, given = content_of(sent), content_of(stored)
        with self._wake:
            if not self._pool.note_written(stored):
                self._pace.ask_soon()
            if is_same_content(asked, given):
                return
            count = sent.spec.pool.resource_slice_count
            index = parse_name_index(stored.metadata.name, count=count)
            if index is not None and self._desired is not None and index < len(self._desired):
                self._adopted[index] = (self._desired[index], given)
        fields = ", ".join(name_dropped_fields(asked, given)) or "some values"
        self._say(
            "FieldsDropped",
            f"The API server stored ResourceSlices of pool {self._identity.pool} without {fields}: a feature gate is off. "
            "The devices are published as the server keeps them.",
        )

    def _note_deleted(self, item: ResourceSlice) -> None:
        with self._wake:
            self._pool.note_deleted(item)

    def _refresh(self, now: ResourceSlice) -> None:
        with self._wake:
            self._pool.note_written(now)

    def _refuse(self, reason: str) -> PublishStatus:
        if reason not in self._said:
            self._said.add(reason)
            self._reports.refuse(reason)
        return PublishStatus(state=PublishState.REFUSED, error=reason)

    def _fail(self, err: Exception) -> PublishStatus:
        with self._wake:
            wait_s = self._pace.fail(
                at_least_s=_INVALID_WAIT_S if isinstance(err, Invalid) else getattr(err, "retry_after_s", None)
            )
            before = self._status
        self._reports.failed(err)
        log.event(_LOG, log.WARNING, "publishing failed", pool=self._identity.pool, error=err, next_try_in_s=round(wait_s, 1))
        if isinstance(err, Invalid | Forbidden):
            self._say("SliceRefused", f"The API server refused ResourceSlices of pool {self._identity.pool}: {err}")
        return replace(before, state=PublishState.FAILING, error=str(err))

    def _say(self, reason: str, text: str) -> None:
        """Tell people a text once; the set is bounded by starting afresh."""
        if text in self._said:
            return
        if len(self._said) > 100:
            self._said.clear()
        self._said.add(text)
        self._reports.say(reason, text)
