"""Each GPU of a node: where it hangs, who has it or parts of it, and whether a claim could have it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from driver.allocator.device_node import DeviceNode, Taken
from driver.allocator.draws import pay, remaining_counters
from driver.allocator.tables import positions_of
from driver.api.resource_v1 import AllocationResult, Device
from driver.cli.gpu.gpu_names import name_gpu
from driver.cli.gpu.holders import Holders, allocated_at_s, allocator_of, list_results
from driver.cli.gpu.sets import GpuMasks, number_islands, read_masks
from driver.cli.gpu.status_views import GpuStatusView, UseView
from driver.cli.gpu.troubles import is_unhealthy
from driver.controller.objects.life import format_time
from driver.controller.objects.model import Claim
from driver.controller.objects.ownership import is_pod

FREE, ALLOCATED, PARTS, UNFIT, CLOSED, UNKNOWN = "free", "allocated", "parts", "unfit", "closed", "unknown"
_SLICE = re.compile(r"memory-?slice-?(\d{1,3})", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSource:
    """A node, what is taken of it, and by whom. ``are_claims_known``: all of them."""

    node: DeviceNode
    taken: Taken
    holders: Holders
    are_claims_known: bool = True


def build_gpus(source: GpuSource) -> tuple[GpuStatusView, ...]:
    """Every GPU of the node in order of name, also one of which only parts are published."""
    members: dict[str, list[int]] = {}
    for at in range(len(source.node.devices)):
        members.setdefault(name_gpu(source.node, at), []).append(at)
    rows = _Rows(source)
    return tuple(
        rows.build(name, members[name]) for name in sorted(members, key=lambda name: _rank(source.node, members[name]))
    )


def count_parts(gpus: Sequence[GpuStatusView]) -> tuple[int, int]:
    """MIG devices and shares that claims have."""
    uses = [use for gpu in gpus for use in gpu.uses]
    return sum(use.profile is not None for use in uses), sum(use.memory is not None for use in uses)


def _rank(node: DeviceNode, members: Sequence[int]) -> tuple[int, str]:
    """Whole GPUs by position, so that a row's number is the position; then the others by name."""
    return (members[0], "") if node.whole >> members[0] & 1 else (len(node.devices), name_gpu(node, members[0]))


class _Rows:
    def __init__(self, source: GpuSource) -> None:
        self._source = source
        self._node = source.node
        self._driver = source.node.ids[0].driver
        self._masks: GpuMasks = read_masks(source.node, source.taken)
        self._islands = number_islands(source.node.values_of(f"{self._driver}/nvlinkIsland"), source.node.whole)
        self._pairs = _number_sets(source.node, f"{self._driver}/nvlinkPair")
        self._lefts, self._blocked = remaining_counters(source.node.shape, source.taken)

    def build(self, name: str, members: Sequence[int]) -> GpuStatusView:
        """The GPU's row; ``members`` are its devices, the whole one first where there is one."""
        node, at = self._node, members[0]
        is_whole = bool(node.whole >> at & 1)
        device = node.devices[at]
        uses = tuple(use for member in members for use in self._list_uses(member))
        return GpuStatusView(
            gpu=at if is_whole else None,
            device=name,
            product=_text(device, "productName"),
            memory=device.capacity["memory"].value if is_whole and "memory" in device.capacity else "",
            numa_node=_number(device, "resource.kubernetes.io/numaNode"),
            pcie_root=_text(device, "resource.kubernetes.io/pcieRoot") or None,
            island=self._islands.get(at),
            pair=self._pairs.get(at),
            state=self._find_state(members, uses),
            is_healthy=self._is_healthy(members),
            is_shareable=bool(device.allow_multiple_allocations),
            memory_slices=max((number + 1 for member in members for number in _list_slices(node.devices[member])), default=0),
            uses=uses,
            free_parts=self._count_free(members),
        )

    def _find_state(self, members: Sequence[int], uses: Sequence[UseView]) -> str:
        at = members[0]
        if uses:
            is_part = any(use.profile is not None or use.memory is not None for use in uses)
            return PARTS if is_part else ALLOCATED
        if not self._is_healthy(members):
            return UNFIT
        if not self._source.are_claims_known:
            return UNKNOWN
        is_free = bool(self._masks.free >> at & 1) if self._node.whole >> at & 1 else bool(self._count_free(members))
        return FREE if is_free else CLOSED

    def _is_healthy(self, members: Sequence[int]) -> bool:
        """Of a GPU of which only parts are published one that is well is enough."""
        judged = members[:1] if self._node.whole >> members[0] & 1 else members
        return not all(is_unhealthy(self._node.devices[member].taints) for member in judged)

    def _count_free(self, members: Sequence[int]) -> dict[str, int]:
        if not self._source.are_claims_known:
            return {}
        taken = self._source.taken
        gone = taken.mask | self._blocked | self._node.whole | sum(1 << at for at in taken.shares)
        mask = sum(1 << at for at in members) & ~gone & self._node.tolerated(())
        counts: dict[str, int] = {}
        for at in positions_of(mask):
            profile = _text(self._node.devices[at], "profile")
            if profile and pay(self._node.shape, self._lefts, at) is not None:
                counts[profile] = counts.get(profile, 0) + 1
        return dict(sorted(counts.items()))

    def _list_uses(self, at: int) -> Iterator[UseView]:
        id_ = self._node.ids[at]
        seen: set[str] = set()
        for claim in self._source.holders.of(id_):
            if claim.metadata.uid not in seen:
                seen.add(claim.metadata.uid)
                yield from (
                    _build_use(claim, each, self._node.devices[at])
                    for each in list_results(claim)
                    if (each.driver, each.pool, each.device) == id_
                )


def _build_use(claim: Claim, result: AllocationResult, device: Device) -> UseView:
    amounts = {name.rpartition("/")[2]: amount for name, amount in result.consumed_capacity.items()}
    return UseView(
        claim=claim.metadata.full_name,
        pods=tuple(sorted(each.name for each in claim.status.reserved_for if is_pod(each))),
        since=format_time(allocated_at_s(claim)),
        allocator=allocator_of(claim),
        request=result.request,
        device=result.device,
        profile=_text(device, "profile") or None,
        memory=amounts.get("memory", "") if result.share_id is not None else None,
        memory_slices=_list_slices(device) if _text(device, "profile") else (),
    )


def _list_slices(device: Device) -> tuple[int, ...]:
    """The memory slices of a GPU that a device takes: those that it draws on, or that it says it is."""
    drawn = (name for each in device.consumes_counters for name in each.counters)
    return tuple(sorted(int(match[1]) for name in (*drawn, *device.capacity) if (match := _SLICE.fullmatch(name))))


def _number_sets(node: DeviceNode, attribute: str) -> dict[int, int]:
    """For each whole GPU the lowest position in its set, where the set has more than one."""
    values = node.values_of(attribute)
    members: dict[int, list[int]] = {}
    for at in positions_of(node.whole):
        if values[at] >= 0:
            members.setdefault(values[at], []).append(at)
    return {at: each[0] for each in members.values() if len(each) > 1 for at in each}


def _text(device: Device, name: str) -> str:
    found = device.attributes.get(name)
    return "" if found is None or found.string is None else found.string


def _number(device: Device, name: str) -> int | None:
    found = device.attributes.get(name)
    return None if found is None else found.int_
