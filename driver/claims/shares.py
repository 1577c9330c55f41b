"""Whether shares of one GPU can stand side by side. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from driver.claims.plan import ClaimPlan, Holder, PlanningNode
from driver.claims.sharing_plan import find_conflict
from driver.errors import DeviceInUse
from driver.names import DeviceName


def validate_shares(plan: ClaimPlan, holders: Mapping[DeviceName, Sequence[Holder]], node: PlanningNode) -> None:
    """Refuses a share beside others that want another setting of the GPU, or leave it too little memory.

    The scheduler adds up memory itself; but it frees a claim whose pod was deleted by force before this node has let go of it.

    Raises:
        DeviceInUse: names the other claim; retryable, since that may end.
    """
    for device in plan.devices:
        if device.share_id is None or device.is_admin:
            continue
        for holder in holders.get(device.device, ()):
            conflict = find_conflict(device.sharing, holder.sharing)
            if conflict is not None:
                raise DeviceInUse(
                    f"{plan.ref}: a share of device {device.device} cannot stand beside that of {holder.who}: {conflict}"
                )
    for name in sorted({device.device for device in plan.devices if device.share_id is not None and not device.is_admin}):
        _validate_memory(plan, name, holders.get(name, ()), node)


def _validate_memory(plan: ClaimPlan, name: DeviceName, holders: Sequence[Holder], node: PlanningNode) -> None:
    total = node.gpu(name).reading.memory_bytes
    mine = sum(device.consumed_bytes or 0 for device in plan.devices if device.device == name)
    theirs = sum(holder.consumed_bytes or 0 for holder in holders)
    if total is not None and holders and mine + theirs > total:
        raise DeviceInUse(
            f"{plan.ref}: device {name} has {total} bytes of memory, of which {', '.join(holder.who for holder in holders)} "
            f"hold {theirs}; {mine} more are too much, and it is tried again until others end"
        )
