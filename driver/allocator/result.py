"""From a placement to what the API stores: results, configs and node selector, as kube-scheduler would write them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from fractions import Fraction

from driver.allocator.capacity import format_amount
from driver.allocator.decide import Placement
from driver.allocator.device_node import DeviceId, DeviceNode
from driver.allocator.fleet import Holding
from driver.allocator.problem import ClaimAsk, Problem
from driver.allocator.slots import Pick
from driver.allocator.statics import build_statics
from driver.allocator.tables import positions_of
from driver.api.claim_spec_v1 import ClaimAllocation, ClaimConfig, ClaimDevices, ClaimResult, DeviceClassSpec
from driver.api.quantity import parse_quantity
from driver.api.resource_v1 import AllocatedConfig, AllocationResult


def build_allocations(
    node: DeviceNode, placement: Placement, asks: Sequence[ClaimAsk], problem: Problem, classes: Mapping[str, DeviceClassSpec]
) -> tuple[ClaimAllocation, ...]:
    """``status.allocation`` of each claim, without the time stamp."""
    statics = build_statics(node, 0, problem.aspects())
    allocations = []
    for number, ask in enumerate(asks):
        picks = [pick for pick in placement.picks if pick.claim == number]
        results = [
            _build_result(node, statics.draws[pick.flat], pick, at, ask) for pick in picks for at in positions_of(pick.mask)
        ]
        allocations.append(
            ClaimAllocation(
                devices=ClaimDevices(results=tuple(results), config=_build_configs(picks, ask, classes)),
                node_selector=build_node_selector(placement.node),
            )
        )
    return tuple(allocations)


def build_node_selector(node: str) -> dict[str, object]:
    """Exactly this node."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def list_holdings(allocation: ClaimAllocation) -> tuple[Holding, ...]:
    """What an allocation takes from the fleet. Admin access takes nothing."""
    return tuple(build_holding(result) for result in allocation.devices.results if not result.admin_access)


def build_holding(result: AllocationResult) -> Holding:
    """What one result takes.

    Raises:
        ValueError: its consumed capacity is no quantity.
    """
    return Holding(
        device=DeviceId(result.driver, result.pool, result.device),
        share_id=result.share_id,
        consumed=tuple((name, parse_quantity(text)) for name, text in sorted(result.consumed_capacity.items())),
    )


def _build_result(
    node: DeviceNode, draws: Sequence[tuple[int, Sequence[tuple[str, Fraction]]]], pick: Pick, at: int, ask: ClaimAsk
) -> ClaimResult:
    device = node.ids[at]
    drawn = next((amounts for position, amounts in draws if position == at), None)
    return ClaimResult(
        request=pick.alternative.name,
        driver=device.driver,
        pool=device.pool,
        device=device.device,
        admin_access=True if pick.alternative.is_admin else None,
        tolerations=pick.alternative.tolerations,
        share_id=None if drawn is None else _share_id(ask, pick, device),
        consumed_capacity={name: format_amount(amount) for name, amount in drawn or ()},
    )


def _share_id(ask: ClaimAsk, pick: Pick, device: DeviceId) -> str:
    """A UUID of this share of the device: the same when asked again, another for every claim, request and device."""
    text = "\0".join((ask.uid, pick.alternative.name, *device))
    digits = hashlib.sha256(text.encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def _build_configs(picks: Sequence[Pick], ask: ClaimAsk, classes: Mapping[str, DeviceClassSpec]) -> tuple[AllocatedConfig, ...]:
    """Configs of classes, each class once, then those of the claim that are for a request that was served (contracts 5.2)."""
    requests: dict[str, list[str]] = {}
    for pick in picks:
        requests.setdefault(pick.alternative.class_name, []).append(pick.alternative.name)
    configs = [
        AllocatedConfig(source="FromClass", requests=tuple(names), opaque=config.opaque)
        for class_name, names in requests.items()
        for config in classes[class_name].config
    ]
    served = [_names(pick) for pick in picks]
    configs += [
        AllocatedConfig(source="FromClaim", requests=config.requests, opaque=config.opaque)
        for config in ask.spec.devices.config
        if _is_wanted(config, served)
    ]
    return tuple(_widen(config, served) for config in configs)


def _names(pick: Pick) -> frozenset[str]:
    """What a config may call the request by: its own name, or that of its parent."""
    return frozenset({pick.alternative.name, pick.alternative.name.partition("/")[0]})


def _is_wanted(config: ClaimConfig, served: Sequence[frozenset[str]]) -> bool:
    return not config.requests or any(not names.isdisjoint(config.requests) for names in served)


def _widen(config: AllocatedConfig, served: Sequence[frozenset[str]]) -> AllocatedConfig:
    """A config that is for all requests names none."""
    if config.requests and all(not names.isdisjoint(config.requests) for names in served):
        return AllocatedConfig(source=config.source, opaque=config.opaque)
    return config
