"""What people are told when the GPUs' health changes. Pure, but for a line in the log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from driver import log
from driver.health.model import Scope, Trouble
from driver.health.observations import DriverSeen, Observation, XidSeen
from driver.health.state import HealthState
from driver.health.xids import find_xid, is_known
from driver.names import DeviceName
from driver.node.words import Word

_LOG = log.logger(__name__)


def list_first_xids(
    before: HealthState, now: HealthState, seen: Sequence[Observation], ignored_xids: Collection[int]
) -> list[Word]:
    """XIDs that are not held against a GPU are said at the first of each number; after that they are counted.

    ``seen`` led from ``before`` to ``now``.
    """
    counts = HealthState().counts if any(isinstance(each, DriverSeen) for each in seen) else before.counts
    first: dict[tuple[DeviceName, int], XidSeen] = {}
    for each in seen:
        # One that is not counted, because the GPU makes up numbers, would be the first each time.
        is_counted = isinstance(each, XidSeen) and each.number in now.counts.get(each.device, {})
        if isinstance(each, XidSeen) and is_counted and each.number not in counts.get(each.device, {}):
            first.setdefault((each.device, each.number), each)
    words = (_word_of_xid(each, is_ignored=each.number in ignored_xids) for each in first.values())
    return [word for word in words if word is not None]


def list_words(before: HealthState, now: HealthState) -> Iterator[tuple[Trouble, Word, bool]]:
    """Troubles that came and went, the word of each, and whether it is over."""
    known = {_name(each) for each in before.troubles}
    left = {_name(each) for each in now.troubles}
    for trouble in now.troubles:
        if _name(trouble) not in known:
            yield trouble, _word_of_trouble(trouble), False
    for trouble in before.troubles:
        if _name(trouble) not in left:
            yield trouble, _word_of_end(trouble), True


def _word_of_xid(seen: XidSeen, *, is_ignored: bool) -> Word | None:
    xid = find_xid(seen.number)
    if not is_known(seen.number):
        log.event(_LOG, log.WARNING, "an XID that is not in the table", device=seen.device, xid=seen.number)
    if xid.is_held and not is_ignored:
        return None
    is_programs = xid.scope is Scope.APPLICATION
    why = "ignored by the settings, " if is_ignored else "the program's own, " if is_programs else ""
    message = f"{seen.device}: XID {seen.number}: {xid.meaning}; {why}the GPU stays in use. Further ones are counted"
    return Word(
        reason="GpuXid",
        message=message if is_programs else f"{message}. {xid.advice}",
        is_warning=not is_programs and not is_ignored,
    )


def _word_of_trouble(trouble: Trouble) -> Word:
    effect = "it stays in use" if trouble.is_warning else "it is given to no new claim"
    return Word(
        reason="GpuWarning" if trouble.is_warning else "GpuUnhealthy",
        message=f"{_where(trouble)}: {trouble.message}; {effect}. {trouble.advice}",
    )


def _word_of_end(trouble: Trouble) -> Word:
    return Word(reason="GpuRecovered", message=f"{_where(trouble)}: over: {trouble.message}", is_warning=False)


def _where(trouble: Trouble) -> str:
    if trouble.instance is None:
        return trouble.device
    return f"{trouble.device}, GPU instance {trouble.instance.gpu_instance_id}"


def _name(trouble: Trouble) -> tuple[object, ...]:
    return trouble.device, trouble.instance, trouble.kind, trouble.value
