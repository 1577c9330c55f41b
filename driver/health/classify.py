"""What a look at a GPU, or an event, makes of its troubles. Pure: the state that it depends on is given."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from driver.health.model import Kind, Scope
from driver.health.observations import Condition
from driver.health.xids import LINK, REBOOT, RESET, find_xid
from driver.nvml.enums import ClocksReason, FabricState, RecoveryAction
from driver.nvml.library import Code, FabricInfo

HOT_LOOKS = 2
"""The hardware brakes for moments on a healthy machine: only what lasts from look to look is a trouble, or its end."""

_ACTIONS: Mapping[int, tuple[Scope, str]] = {
    RecoveryAction.GPU_RESET: (Scope.GPU, RESET),
    RecoveryAction.NODE_REBOOT: (Scope.NODE, REBOOT),
    RecoveryAction.DRAIN_P2P: (Scope.GPU, "Let the pods end that use this GPU together with others; the driver then heals it."),
    RecoveryAction.DRAIN_AND_RESET: (Scope.GPU, RESET),
    RecoveryAction.RECOVER_IMEX_DOMAIN: (Scope.NODE, "Restart the IMEX domain of the rack, once its jobs have ended."),
    RecoveryAction.BUS_RESET: (Scope.NODE, "Drain the node and reset the GPU's bus, or reboot the node."),
    RecoveryAction.SYSTEM_REBOOT: (Scope.NODE, REBOOT),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A trouble, but for whose it is and since when."""

    kind: Kind
    value: str = ""
    scope: Scope = Scope.GPU
    is_warning: bool = False
    message: str
    advice: str


def choose_xid_finding(number: int, ignored: Collection[int]) -> Finding | None:
    """What an XID is held against the GPU as; None where it is only counted, or ignored by the setting."""
    xid = find_xid(number)
    if not xid.is_held or number in ignored:
        return None
    return Finding(kind=Kind.XID, value=str(number), scope=xid.scope, message=f"XID {number}: {xid.meaning}", advice=xid.advice)


ECC_FINDING = Finding(kind=Kind.ECC, value="uncorrected", message="memory errors that ECC could not correct", advice=RESET)
LOST_FINDING = Finding(kind=Kind.GPU_LOST, scope=Scope.NODE, message="the GPU fell off the bus", advice=REBOOT)


def list_findings(condition: Condition, *, known_links: Collection[int], hot: bool, braked: bool) -> tuple[Finding, ...]:
    """What is wrong as long as it is seen: the driver's recovery action, rows, links, brakes, fabric, deafness.

    Args:
        condition: the look.
        known_links: NVLinks that were up in this boot.
        hot: the thermal brake has lasted.
        braked: the power brake has lasted.
    """
    found = (
        _find_recovery(condition.recovery_action),
        _find_rows(condition),
        _find_links(condition, known_links),
        _THERMAL if hot else None,
        _POWER_BRAKE if braked else None,
        _find_fabric(condition.fabric),
        None if condition.has_events else _UNMONITORED,
    )
    return tuple(each for each in found if each is not None)


def is_hot(condition: Condition) -> bool:
    """Whether the hardware brakes for heat at this moment."""
    return bool((condition.clocks_reasons or 0) & ClocksReason.HW_THERMAL_SLOWDOWN)


def is_braked(condition: Condition) -> bool:
    """Whether the hardware brakes because the power supply says so, at this moment."""
    return bool((condition.clocks_reasons or 0) & ClocksReason.HW_POWER_BRAKE_SLOWDOWN)


def _find_recovery(action: int | None) -> Finding | None:
    if action is None or action == RecoveryAction.NONE:
        return None
    try:
        word = RecoveryAction(action).name.lower().replace("_", "-")
    except ValueError:
        word = f"action-{action}"
    scope, advice = _ACTIONS.get(action, (Scope.GPU, RESET))
    return Finding(
        kind=Kind.RECOVERY, value=word, scope=scope, message=f"the driver asks for {word.replace('-', ' ')}", advice=advice
    )


def _find_rows(condition: Condition) -> Finding | None:
    rows = condition.remapped_rows
    if rows is None or not (rows.has_failed or rows.is_pending):
        return None
    if rows.has_failed:
        return Finding(
            kind=Kind.REMAPPED_ROWS,
            value="failed",
            message="a bad memory row could not be replaced: there is no spare one left",
            advice="Have the GPU replaced.",
        )
    return Finding(
        kind=Kind.REMAPPED_ROWS,
        value="pending",
        is_warning=True,
        message="a bad memory row is to be replaced with the next reset",
        advice="Reset the GPU when it is idle; until then it works as it is.",
    )


def _find_links(condition: Condition, known_links: Collection[int]) -> Finding | None:
    down = [link for link, is_up in condition.links if not is_up and link in known_links]
    if not down:
        return None
    numbers = ", ".join(map(str, down))
    return Finding(
        kind=Kind.NVLINK,
        value="down",
        is_warning=True,
        message=f"NVLinks that were up are down: {numbers}; islands and pairs are published without them",
        advice=LINK,
    )


_FABRIC_STATES: Mapping[int, str] = {
    FabricState.NOT_STARTED: "not-started",
    FabricState.IN_PROGRESS: "in-progress",
    FabricState.COMPLETED: "failed",
}


def _find_fabric(fabric: FabricInfo | None) -> Finding | None:
    """A warning: whether CUDA starts without the fabric is the machine's own business."""
    if fabric is None or fabric.state == FabricState.NOT_SUPPORTED:
        return None
    if fabric.state == FabricState.COMPLETED and fabric.status == Code.SUCCESS:
        return None
    return replace(_FABRIC, value=_FABRIC_STATES.get(fabric.state, "unknown"))


_THERMAL = Finding(
    kind=Kind.THERMAL,
    value="slowdown",
    is_warning=True,
    message="the hardware slows the GPU down for heat",
    advice="Look at fans, air flow and the temperature of the room.",
)
_POWER_BRAKE = Finding(
    kind=Kind.POWER_BRAKE,
    value="slowdown",
    is_warning=True,
    message="the hardware slows the GPU down because the power supply asks for it",
    advice="Look at the power supplies and at the rack's power budget.",
)
_FABRIC = Finding(
    kind=Kind.FABRIC,
    is_warning=True,
    message="the NVLink fabric is not up: programs may fail with CUDA's error 802, system not yet initialized",
    advice="See that nvidia-fabricmanager runs on the node (on its host, for a virtual machine), in the driver's version.",
)
_UNMONITORED = Finding(
    kind=Kind.UNMONITORED,
    value="events",
    is_warning=True,
    message="the driver tells no events of this GPU: XIDs are not seen",
    advice="Nothing to do where the GPU or its virtualisation has no events; else update the driver.",
)
