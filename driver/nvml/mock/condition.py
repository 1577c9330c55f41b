"""What a GPU's faults make of its condition, as the driver would tell it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from driver.nvml.enums import ClocksReason, RecoveryAction
from driver.nvml.library import RemappedRows
from driver.nvml.mock.faults import EccEvent, Fault, NeedsRecovery, RowsRemapped, Slowdown, XidEvent

_ACTIONS: Mapping[int, RecoveryAction] = {
    46: RecoveryAction.GPU_RESET,
    48: RecoveryAction.GPU_RESET,
    62: RecoveryAction.GPU_RESET,
    64: RecoveryAction.GPU_RESET,
    74: RecoveryAction.GPU_RESET,
    79: RecoveryAction.NODE_REBOOT,
    95: RecoveryAction.GPU_RESET,
    119: RecoveryAction.GPU_RESET,
    120: RecoveryAction.GPU_RESET,
    140: RecoveryAction.GPU_RESET,
    143: RecoveryAction.GPU_RESET,
}
"""What the driver asks for after an XID, until it is done: here, until the XID is taken out of the faults."""

_WORDS: Mapping[str, RecoveryAction] = {action.name.lower().replace("_", "-"): action for action in RecoveryAction}
_REASONS = {"thermal": ClocksReason.HW_THERMAL_SLOWDOWN, "power-brake": ClocksReason.HW_POWER_BRAKE_SLOWDOWN}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCondition:
    """What the calls about a GPU's condition answer."""

    recovery_action: RecoveryAction
    uncorrected_ecc_errors: int
    remapped_rows: RemappedRows
    clocks_reasons: ClocksReason


def build_condition(faults: Iterable[Fault], gpu: int) -> GpuCondition:
    """The condition of the GPU of this index."""
    own = [fault for fault in faults if getattr(fault, "gpu", None) == gpu]
    rows = [fault for fault in own if isinstance(fault, RowsRemapped)]
    reasons = ClocksReason(0)
    for fault in own:
        if isinstance(fault, Slowdown):
            reasons |= _REASONS[fault.reason]
    return GpuCondition(
        recovery_action=_choose_action(own),
        uncorrected_ecc_errors=sum(isinstance(fault, EccEvent) and fault.bits == "double" for fault in own),
        remapped_rows=RemappedRows(
            correctable=0,
            uncorrectable=sum(fault.rows for fault in rows),
            is_pending=any(fault.is_pending for fault in rows),
            has_failed=any(fault.has_failed for fault in rows),
        ),
        clocks_reasons=reasons,
    )


def _choose_action(own: Collection[Fault]) -> RecoveryAction:
    said = next((fault for fault in own if isinstance(fault, NeedsRecovery)), None)
    if said is not None:
        return _WORDS[said.action]
    actions = {_ACTIONS.get(fault.xid, RecoveryAction.NONE) for fault in own if isinstance(fault, XidEvent)}
    if any(isinstance(fault, EccEvent) and fault.bits == "double" for fault in own):
        actions.add(RecoveryAction.GPU_RESET)
    return max(actions, default=RecoveryAction.NONE)
