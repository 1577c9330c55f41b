"""Observations, made by hand."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from driver.health.model import Instance, Kind
from driver.health.observations import Condition, DriverSeen, EccSeen, Looked, LostSeen, Observation, XidSeen
from driver.health.state import HealthState, Rules, reduce
from driver.names import DeviceName
from driver.nvml.library import FabricInfo, RemappedRows

GPU, OTHER = DeviceName("gpu-0000-01-00-0"), DeviceName("gpu-0000-02-00-0")
START = datetime(2026, 12, 2, 5, 0, 0, 250_000, tzinfo=UTC)
UUID = "GPU-00000000-0000-4000-8000-000000000001"
RULES = Rules()


def at(seconds: float) -> datetime:
    """So long after the start."""
    return START + timedelta(seconds=seconds)


def xid(number: int, seconds: float = 0.0, device: DeviceName = GPU, instance: Instance | None = None) -> XidSeen:
    """An XID."""
    return XidSeen(device=device, at=at(seconds), number=number, instance=instance)


def ecc(seconds: float = 0.0) -> EccSeen:
    """A double-bit error."""
    return EccSeen(device=GPU, at=at(seconds))


def lost(seconds: float = 0.0) -> LostSeen:
    """GPU_IS_LOST."""
    return LostSeen(device=GPU, at=at(seconds))


def driver(epoch: str) -> DriverSeen:
    """A boot."""
    return DriverSeen(epoch=epoch)


def look(
    seconds: float = 0.0,
    *,
    action: int | None = None,
    errors: int | None = None,
    rows: RemappedRows | None = None,
    reasons: int | None = None,
    links: tuple[tuple[int, bool], ...] = (),
    fabric: FabricInfo | None = None,
    has_events: bool = True,
    uuid: str = UUID,
    device: DeviceName = GPU,
) -> Looked:
    """A look at a GPU that has nothing but what is said."""
    condition = Condition(
        uuid=uuid,
        has_events=has_events,
        fabric=fabric,
        recovery_action=action,
        uncorrected_ecc_errors=errors,
        remapped_rows=rows,
        clocks_reasons=reasons,
        links=links,
    )
    return Looked(device=device, at=at(seconds), condition=condition)


def rows(*, is_pending: bool = False, has_failed: bool = False) -> RemappedRows:
    """One row."""
    return RemappedRows(correctable=0, uncorrectable=1, is_pending=is_pending, has_failed=has_failed)


def after(*seen: Observation, state: HealthState | None = None, rules: Rules = RULES) -> HealthState:
    """The state that these lead to."""
    now = state or HealthState()
    for each in seen:
        now = reduce(now, each, rules)
    return now


def kinds(state: HealthState) -> list[tuple[Kind, str]]:
    """Kind and value of each trouble, in order."""
    return [(each.kind, each.value) for each in state.troubles]


def devices(state: HealthState) -> set[str]:
    """Whose troubles there are."""
    return {each.device for each in state.troubles}


def all_after(seen: Iterable[Observation]) -> HealthState:
    """Likewise, of any iterable."""
    return after(*seen)
