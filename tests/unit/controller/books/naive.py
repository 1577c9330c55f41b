"""The mirror's answers worked out the slow way, from nothing but the objects: what the books must agree with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from driver.controller.objects.model import Claim, Pod
from tests.unit.controller.world import DRIVER, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A demand by names."""

    pods: frozenset[str]
    claims: frozenset[str]
    nodes: frozenset[str]
    """Every node that something fixes."""


def read_groups(world: World) -> set[Group]:
    """The demands, by joining any two pods that share an open claim until nothing changes."""
    claims = {item.metadata.name: item for item in world.objects.values() if isinstance(item, Claim)}
    pods = [item for item in world.objects.values() if isinstance(item, Pod)]
    waiting = {pod.metadata.name: pod for pod in pods if _waits(pod) and _is_complete(pod, claims)}
    groups = [{name} for name, pod in waiting.items() if _open_claims(world, pod, claims)]
    while True:
        pairs = ((one, two) for one in groups for two in groups if one is not two)
        joined = next((pair for pair in pairs if _share(world, waiting, claims, *pair)), None)
        if joined is None:
            return {_describe(world, waiting, claims, group) for group in groups}
        joined[0].update(joined[1])
        groups.remove(joined[1])


def read_free(world: World) -> dict[str, int]:
    """Devices of each node of the fleet that nobody has and nothing is reserved of."""
    held = {
        (result.pool, result.device)
        for claim in world.objects.values()
        if isinstance(claim, Claim) and claim.metadata.uid not in world.cluster.claim_book.reserved
        for result in (claim.status.allocation.devices.results if claim.status.allocation is not None else ())
        if result.driver == DRIVER and not result.admin_access
    }
    for reservation in world.cluster.claim_book.reserved.values():
        held |= {(holding.device.pool, holding.device.device) for holding in reservation.holdings}
    return {
        name: sum((id_.pool, id_.device) not in held for id_ in node.ids) for name, node in world.cluster.fleet.nodes.items()
    }


def _waits(pod: Pod) -> bool:
    return (
        pod.metadata.deletion_timestamp is None
        and pod.status.phase not in ("Succeeded", "Failed")
        and not pod.spec.scheduling_gates
        and pod.spec.scheduler_name == "default-scheduler"
    )


def _claim_names(pod: Pod) -> list[str | None]:
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    named = [each.resource_claim_name for each in pod.spec.resource_claims if each.resource_claim_name is not None]
    entries = [each.name for each in pod.spec.resource_claims if each.resource_claim_name is None]
    return [*named, *(made.get(name) for name in entries)]


def _is_complete(pod: Pod, claims: dict[str, Claim]) -> bool:
    return all(name in claims for name in _claim_names(pod))


def _open_claims(world: World, pod: Pod, claims: dict[str, Claim]) -> set[str]:
    reserved = world.cluster.claim_book.reserved
    mine = (claims[name] for name in _claim_names(pod) if name is not None)
    return {each.metadata.name for each in mine if each.status.allocation is None and each.metadata.uid not in reserved}


def _share(world: World, waiting: dict[str, Pod], claims: dict[str, Claim], group: Iterable[str], other: Iterable[str]) -> bool:
    first = set().union(*(_open_claims(world, waiting[name], claims) for name in group))
    return any(first & _open_claims(world, waiting[name], claims) for name in other)


def _describe(world: World, waiting: dict[str, Pod], claims: dict[str, Claim], group: set[str]) -> Group:
    nodes = {waiting[name].spec.node_name for name in group} - {""}
    open_claims: set[str] = set()
    for name in group:
        open_claims |= _open_claims(world, waiting[name], claims)
        for claim_name in _claim_names(waiting[name]):
            claim = claims[claim_name or ""]
            reservation = world.cluster.claim_book.reserved.get(claim.metadata.uid)
            if reservation is not None:
                nodes.add(reservation.node)
            elif claim.status.allocation is not None and claim.status.allocation.node_selector is not None:
                nodes.add(claim.status.allocation.node_selector.node_selector_terms[0].match_fields[0].values[0])
    return Group(pods=frozenset(group), claims=frozenset(open_claims), nodes=frozenset(nodes))
