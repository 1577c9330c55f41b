"""Everything that ``kubectl gpu status`` says: the fleet, a node, or the devices of a pod or a claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from driver.allocator.device_node import DeviceNode
from driver.cli.gpu.claim_status import NODE, build_claim, choose_claims, is_unwell, list_waiting
from driver.cli.gpu.fleet_reading import FleetReading
from driver.cli.gpu.fragments import ORDER, find_allocator, name_product
from driver.cli.gpu.gpu_rows import (
    ALLOCATED,
    CLOSED,
    FREE,
    PARTS,
    UNFIT,
    UNKNOWN,
    GpuSource,
    build_gpus,
    count_parts,
)
from driver.cli.gpu.holders import Holders
from driver.cli.gpu.status_views import (
    CountsView,
    GpuStatusView,
    IslandSizeView,
    NodeStatusView,
    ProductStatusView,
    StatusView,
    SubjectView,
    TroubleView,
)
from driver.cli.gpu.troubles import list_troubles


def build_status(reading: FleetReading, subject: SubjectView | None = None) -> StatusView:
    """The view: without a subject the whole fleet."""
    nodes, troubles = _build_nodes(reading)
    claims, waiting = choose_claims(reading, subject), list_waiting(reading)
    view_claims = tuple(build_claim(reading, each, troubles) for each in claims)
    if subject is None:
        view_claims = tuple(each for each in view_claims if any(is_unwell(device) for device in each.devices))
    else:
        kept = {subject.name} if subject.kind == NODE else {each.node for each in view_claims}
        names = {each.metadata.full_name for each in claims}
        nodes = [each for each in nodes if each.node in kept]
        troubles = [each for each in troubles if each.node in kept]
        waiting = [] if subject.kind == NODE else [each for each in waiting if each.claim in names]
    return StatusView(
        driver=reading.cluster.driver,
        subject=subject,
        counts=_add(each.counts for each in nodes),
        products=tuple(_build_products(nodes)),
        nodes=tuple(nodes),
        troubles=tuple(troubles),
        claims=view_claims,
        waiting=tuple(waiting),
        notes=(*reading.notes, *_list_left_out(reading, subject)),
    )


def _build_nodes(reading: FleetReading) -> tuple[list[NodeStatusView], list[TroubleView]]:
    """In order of allocator, product and name, and their troubles."""
    cluster = reading.cluster
    holders = Holders(cluster)
    nodes = [_build_node(reading, cluster.fleet.nodes[name], holders) for name in sorted(cluster.fleet.nodes)]
    nodes.sort(key=lambda each: (ORDER.index(each.allocator), each.product, each.node))
    troubles = [trouble for each in nodes for trouble in list_troubles(cluster.fleet.nodes[each.node], reading.rules)]
    return nodes, troubles


def _build_node(reading: FleetReading, node: DeviceNode, holders: Holders) -> NodeStatusView:
    cluster = reading.cluster
    source = GpuSource(
        node=node, taken=cluster.fleet.taken(node.name), holders=holders, are_claims_known=reading.are_claims_known
    )
    gpus, known = build_gpus(source), cluster.nodes.get(node.name)
    mig_devices, shares = count_parts(gpus)
    allocator = find_allocator(node)
    return NodeStatusView(
        node=node.name,
        allocator=allocator,
        is_ready=node.name not in reading.not_ready,
        is_cordoned=known is not None and known.spec.unschedulable,
        product=name_product(node.devices),
        counts=_count(gpus, is_draining=allocator == "draining"),
        islands=_count_islands(gpus),
        mig_devices=mig_devices,
        shares=shares,
        gpus=gpus,
    )


def _count(gpus: Sequence[GpuStatusView], *, is_draining: bool) -> CountsView:
    states = Counter(each.state for each in gpus)
    healthy = sum(each.is_healthy for each in gpus)
    return CountsView(
        gpus=len(gpus),
        allocatable=0 if is_draining else healthy,
        free=states[FREE],
        allocated=states[ALLOCATED] + states[PARTS],
        unfit=states[UNFIT],
        closed=states[CLOSED],
        unknown=states[UNKNOWN],
        unhealthy=len(gpus) - healthy,
    )


def _add(counts: Iterable[CountsView]) -> CountsView:
    total: Counter[str] = Counter(dict.fromkeys(CountsView.__struct_fields__, 0))
    for each in counts:
        total.update({name: getattr(each, name) for name in CountsView.__struct_fields__})
    return CountsView(**total)


def _count_islands(gpus: Sequence[GpuStatusView]) -> tuple[IslandSizeView, ...]:
    """Of more than one GPU, the largest first."""
    members: dict[int, list[GpuStatusView]] = {}
    for each in gpus:
        if each.island is not None:
            members.setdefault(each.island, []).append(each)
    sizes = Counter(len(each) for each in members.values())
    free = Counter(len(each) for each in members.values() if all(gpu.state == FREE for gpu in each))
    return tuple(
        IslandSizeView(size=size, islands=number, free=free[size])
        for size, number in sorted(sizes.items(), reverse=True)
        if size > 1
    )


def _build_products(nodes: Sequence[NodeStatusView]) -> Iterator[ProductStatusView]:
    for (allocator, product), found in groupby(nodes, key=lambda each: (each.allocator, each.product)):
        members = list(found)
        islands, free = Counter[int](), Counter[int]()
        for each in (island for node in members for island in node.islands):
            islands[each.size] += each.islands
            free[each.size] += each.free
        yield ProductStatusView(
            product=product,
            allocator=allocator,
            nodes=len(members),
            counts=_add(each.counts for each in members),
            islands=tuple(
                IslandSizeView(size=size, islands=number, free=free[size])
                for size, number in sorted(islands.items(), reverse=True)
            ),
            mig_devices=sum(each.mig_devices for each in members),
            shares=sum(each.shares for each in members),
        )


def _list_left_out(reading: FleetReading, subject: SubjectView | None) -> Iterator[str]:
    for each in reading.cluster.pools_left_out.values():
        if subject is None or subject.kind != NODE or subject.name in each.nodes:
            yield f"pool {each.name} (node {', '.join(each.nodes) or 'not told'}) is left out: {each.reason}"
