"""Whose the node's devices are, and when they may change sides. Pure; ``fencing`` carries it out.

Two dangers are kept track of, each as one fact on disk:

* kube-scheduler may still write an allocation that it chose while the devices were unfenced: it does so after minutes, when a
  volume or a gang was waited for. Passed when the fence has been up, as the API server has it, for the draining time.
* the controller may still write an allocation that it chose while the devices were its own. Passed when it has acknowledged the
  draining taint by its ``timeAdded``, or when no controller has been there for the draining time.

The devices go to a side only when the danger from the other has passed; until then they are nobody's, *draining* (R3). Either
danger is put on record before what brings it about is published, so a kill at any moment loses none. Time is counted by the
machine's uptime, which no clock change moves, and starts anew after a reboot.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

from driver.api.fence import DRAINED_ANNOTATION
from driver.api.meta_v1 import encode_time
from driver.node.words import Word
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.fence import FenceStanding

CONFIRM_AGAIN_S = 5.0
"""While the API server has not got the fence yet; it is looked at when a write ends, too."""
LOOK_FOR_CONTROLLER_S = 5.0
REFUSED_AGAIN_S = 300.0
"""A cluster may be upgraded while this process runs."""

Wish: TypeAlias = "Allocator | None"


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """A point in one boot of the machine."""

    boot_id: str
    uptime_s: float


class FenceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is published, or is about to be, and what may still be under way. On disk as JSON."""

    version: int = 1
    state: Allocator
    time_added: str = ""
    """When this state began: the taint's ``timeAdded``, by which the controller acknowledges. No two are the same."""
    scheduler_may_hold: bool
    controller_may_hold: bool
    fenced_from: Moment | None = None
    """Since when the API server has had the fence; None while that is not sure, or nothing is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceSeen:
    """What the next step depends on."""

    wanted: Wish
    """By the node's label, else by the setting; None while the label cannot be read, or makes no sense."""
    refusal: str | None = None
    """Why this API server cannot hold the fence; empty where it can, None where that is not known."""
    standing: FenceStanding | None = None
    """Of the devices that the API server has; None while they are not settled."""
    acknowledged: str = ""
    """What the controller has written to the node."""
    is_controller_gone: bool = False
    """No controller has held its lease for the draining time."""
    now: Moment
    wall: datetime
    """For texts only."""
    drain_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceStep:
    """What comes next."""

    record: FenceRecord | None
    """To be written, then published; None: nothing is known, and nothing may be published."""
    words: tuple[Word, ...] = ()
    wait_s: float | None = None
    """Look again after this long, though nothing has changed."""


def plan_fence(before: FenceRecord | None, seen: FenceSeen) -> FenceStep:
    """The next step. ``before`` is the record; None where nothing was ever published."""
    known = None if before is None else _note_passed(before, seen)
    wish, refusal = _choose_wish(known, seen)
    if wish is None:
        after = known
    elif known is None:
        after = _begin(wish, seen)
    else:
        after = _move(known, wish, seen)
    words = (*_tell_change(before, after, seen), *_tell_wait(after, wish, seen), *refusal)
    return FenceStep(record=after, words=words, wait_s=_choose_wait(after, wish, seen, is_refused=bool(refusal)))


def recover_record(said: Collection[Allocator], times: Collection[str], wall: datetime) -> FenceRecord | None:
    """A record in the place of one that is lost, from what devices say themselves; None where no device was ever published.

    Args:
        said: who may have allocated them, from slices and the inventory.
        times: the fence's moments in the slices.
        wall: the time.
    """
    if not said:
        return None
    if set(said) == {Allocator.SCHEDULER}:
        return FenceRecord(state=Allocator.SCHEDULER, scheduler_may_hold=True, controller_may_hold=False)
    if set(said) == {Allocator.CONTROLLER}:  # they became so only after draining
        (time_added,) = times if len(times) == 1 else ("",)
        return FenceRecord(
            state=Allocator.CONTROLLER, time_added=time_added, scheduler_may_hold=False, controller_may_hold=True
        )
    return FenceRecord(
        state=Allocator.DRAINING,
        time_added=choose_time_added(wall, times),
        scheduler_may_hold=True,
        controller_may_hold=True,
    )


def choose_time_added(wall: datetime, used: Collection[str]) -> str:
    """Now, to the second as the API keeps it; later where that was used before: an old acknowledgement must not fit."""
    moment = wall
    while (text := encode_time(moment)) in used:
        moment += timedelta(seconds=1)
    return text


def is_waiting_for_controller(record: FenceRecord | None, wanted: Wish) -> bool:
    """Whether it matters if there is a controller at all."""
    return (
        record is not None
        and record.state is Allocator.DRAINING
        and record.controller_may_hold
        and wanted is Allocator.SCHEDULER
    )


def is_about_to_fence(record: FenceRecord | None, wanted: Wish) -> bool:
    """Whether it matters if the API server can hold a fence."""
    return wanted is Allocator.CONTROLLER and (record is None or record.state is Allocator.SCHEDULER)


def _note_passed(record: FenceRecord, seen: FenceSeen) -> FenceRecord:
    """The record with the dangers that have passed by now."""
    if record.state is Allocator.SCHEDULER:
        return record
    if seen.standing is FenceStanding.OPEN:  # what was sent was not kept: this is what is published, whatever we wanted
        return msgspec.structs.replace(record, state=Allocator.SCHEDULER, scheduler_may_hold=True, fenced_from=None)
    if record.scheduler_may_hold:
        record = _count(record, seen)
    is_up = seen.standing is FenceStanding.UP
    is_free = seen.acknowledged == record.time_added != "" or (seen.is_controller_gone and is_up)
    if record.state is Allocator.DRAINING and is_free:
        record = msgspec.structs.replace(record, controller_may_hold=False)
    return record


def _count(record: FenceRecord, seen: FenceSeen) -> FenceRecord:
    start, now = record.fenced_from, seen.now
    if start is None or start.boot_id != now.boot_id or start.uptime_s > now.uptime_s:
        is_up = seen.standing is FenceStanding.UP
        return msgspec.structs.replace(record, fenced_from=now if is_up else None)
    if now.uptime_s - start.uptime_s < seen.drain_s:
        return record
    return msgspec.structs.replace(record, scheduler_may_hold=False, fenced_from=None)


def _choose_wish(known: FenceRecord | None, seen: FenceSeen) -> tuple[Wish, tuple[Word, ...]]:
    if not is_about_to_fence(known, seen.wanted) or seen.refusal == "":
        return seen.wanted, ()
    if seen.refusal is None:
        return None, ()
    return Allocator.SCHEDULER, (Word(reason="FenceRefused", message=seen.refusal),)


def _begin(wish: Allocator, seen: FenceSeen) -> FenceRecord:
    """At once: nobody can have chosen devices that were never published."""
    return FenceRecord(
        state=wish,
        time_added=choose_time_added(seen.wall, {seen.acknowledged}),
        scheduler_may_hold=wish is Allocator.SCHEDULER,
        controller_may_hold=wish is Allocator.CONTROLLER,
    )


def _move(record: FenceRecord, wish: Allocator, seen: FenceSeen) -> FenceRecord:
    if wish is record.state:
        return record
    is_barred = record.scheduler_may_hold if wish is Allocator.CONTROLLER else record.controller_may_hold
    target = Allocator.DRAINING if is_barred else wish
    if target is record.state:
        return record
    return msgspec.structs.replace(
        record,
        state=target,
        time_added=choose_time_added(seen.wall, {record.time_added, seen.acknowledged}),
        scheduler_may_hold=record.scheduler_may_hold or target is Allocator.SCHEDULER,
        controller_may_hold=record.controller_may_hold or target is Allocator.CONTROLLER,
        fenced_from=None,
    )


def _choose_wait(after: FenceRecord | None, wish: Wish, seen: FenceSeen, *, is_refused: bool) -> float | None:
    if is_refused:
        return REFUSED_AGAIN_S
    if after is None or wish is None or wish is after.state:
        return None
    if wish is Allocator.SCHEDULER:
        return LOOK_FOR_CONTROLLER_S
    if after.fenced_from is None:
        return CONFIRM_AGAIN_S
    return max(0.0, after.fenced_from.uptime_s + seen.drain_s - seen.now.uptime_s) + 0.1


_NOW = {
    Allocator.SCHEDULER: "kube-scheduler's: no fence",
    Allocator.DRAINING: "nobody's: no new claim is given any of them",
    Allocator.CONTROLLER: "the gpu-dra controller's",
}


def _tell_change(before: FenceRecord | None, after: FenceRecord | None, seen: FenceSeen) -> tuple[Word, ...]:
    if before is None or after is None:
        return ()
    words = []
    if seen.standing is FenceStanding.OPEN and before.state is not Allocator.SCHEDULER:
        text = (
            "The API server did not keep the fence's taint, so the node's devices are kube-scheduler's, whatever is asked for"
        )
        words.append(Word(reason="FenceLost", message=f"{text}; is the feature gate DRADeviceTaints on in every API server?"))
    if before.controller_may_hold and not after.controller_may_hold and seen.acknowledged != before.time_added:
        text = f"No controller has been there for {seen.drain_s:g} s; the node leaves it without its acknowledgement"
        words.append(Word(reason="FenceWithoutController", message=text))
    if before.state is not after.state:
        message = f"The node's devices are now {_NOW[after.state]} (since {after.time_added})"
        words.append(Word(reason="AllocatorChanged", message=message, is_warning=False))
    return tuple(words)


def _tell_wait(after: FenceRecord | None, wish: Wish, seen: FenceSeen) -> tuple[Word, ...]:
    if after is None or wish is None or wish is after.state:
        return ()
    if wish is Allocator.CONTROLLER:
        text = (
            f"The node's devices go to the controller {seen.drain_s:g} s after the fence is up: until then an allocation that"
            " kube-scheduler has begun may still be written"
        )
        return (Word(reason="FenceDraining", message=text, is_warning=False),)
    text = (
        f"The node's devices go to kube-scheduler when the controller has acknowledged with annotation {DRAINED_ANNOTATION}="
        f"{after.time_added} on the Node, or when its lease has not been renewed for {seen.drain_s:g} s; does"
        " `gpu-dra controller` run?"
    )
    return (Word(reason="FenceWaitsForController", message=text, is_warning=False),)
