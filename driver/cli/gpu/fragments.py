"""How the free GPUs of a fleet lie: sets by size, the largest request that fits now, and what is in the way of a larger one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from driver.allocator.device_node import DeviceNode
from driver.allocator.tables import positions_of
from driver.api.fence import ALLOCATOR_KEY, CONTROLLER, DRAINING, SCHEDULER
from driver.api.resource_v1 import Device
from driver.api.topology_policy import Scope
from driver.cli.gpu.holders import Holders
from driver.cli.gpu.sets import (
    SIZES,
    GpuMasks,
    count_partitions,
    count_sets,
    find_largest,
    number_islands,
    read_masks,
)
from driver.cli.gpu.views import FragmentationView, FreeNodeView, FreeProductView, IslandView, LargestView
from driver.cli.gpu.ways import Candidate, choose_ways
from driver.controller.books.mirror import Cluster

SCOPES = (Scope.NVLINK, Scope.NUMA, Scope.PCIE, Scope.NODE)
MIXED = "mixed"
ORDER = (CONTROLLER, SCHEDULER, DRAINING, MIXED)
"""In which allocators are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    node: DeviceNode
    masks: GpuMasks
    view: FreeNodeView


def build_fragmentation(cluster: Cluster, notes: Sequence[str] = ()) -> FragmentationView:
    """The whole fleet of the driver, whoever allocates it."""
    holders = Holders(cluster)
    seen = [_look(cluster, cluster.fleet.nodes[name], holders) for name in sorted(cluster.fleet.nodes)]
    seen.sort(key=lambda each: (ORDER.index(each.view.allocator), each.view.product, each.view.node))
    left_out = [f"pool {each.name} is left out: {each.reason}" for each in cluster.pools_left_out.values()]
    return FragmentationView(
        driver=cluster.driver,
        products=tuple(_build_products(seen)),
        largest=tuple(_build_largest(seen, holders)),
        nodes=tuple(each.view for each in seen),
        notes=(*notes, *left_out),
    )


def find_allocator(node: DeviceNode) -> str:
    """Who may allocate the node's devices, by their fence."""
    states = {_state_of(device) for device in node.devices}
    return states.pop() if len(states) == 1 else MIXED


def name_product(devices: Iterable[Device]) -> str:
    """What most of the devices are; empty where they do not say."""
    names = Counter(each.string or "" for device in devices if (each := device.attributes.get("productName")) is not None)
    return names.most_common(1)[0][0] if names else ""


def _state_of(device: Device) -> str:
    return next((taint.value for taint in device.taints if taint.key == ALLOCATOR_KEY), SCHEDULER)


def _look(cluster: Cluster, node: DeviceNode, holders: Holders) -> _Seen:
    taken = cluster.fleet.taken(node.name)
    masks = read_masks(node, taken)
    used = holders.used(node) & masks.all
    allocator, product = find_allocator(node), name_product(node.devices)
    view = FreeNodeView(
        node=node.name,
        allocator=allocator,
        is_cordoned=node.name not in cluster.nodes or cluster.nodes[node.name].spec.unschedulable,
        product=product,
        gpus=masks.all.bit_count(),
        free=masks.free.bit_count(),
        allocated=used.bit_count(),
        unavailable=(masks.all & ~masks.free & ~used).bit_count(),
        sets=_texts(count_sets(node.shape.tables, masks.free)),
        islands=_build_islands(cluster.driver, node, masks),
        partitions=count_partitions(node, taken),
    )
    return _Seen(node=node, masks=masks, view=view)


def _build_islands(driver: str, node: DeviceNode, masks: GpuMasks) -> tuple[IslandView, ...]:
    numbers = number_islands(node.values_of(f"{driver}/nvlinkIsland"), masks.all)
    sizes, free = Counter(numbers.values()), Counter(numbers[at] for at in positions_of(masks.free))
    return tuple(IslandView(island=number, gpus=count, free=free[number]) for number, count in sorted(sizes.items()))


def _build_products(seen: Sequence[_Seen]) -> Iterator[FreeProductView]:
    for (allocator, product), found in groupby(seen, key=lambda each: (each.view.allocator, each.view.product)):
        views = [each.view for each in found]
        free = sum(view.free for view in views)
        sets = _add(view.sets for view in views)
        yield FreeProductView(
            allocator=allocator,
            product=product,
            nodes=len(views),
            gpus=sum(view.gpus for view in views),
            free=free,
            allocated=sum(view.allocated for view in views),
            unavailable=sum(view.unavailable for view in views),
            sets=sets,
            possible={size: free // int(size) for size in sets},
            partitions=dict(sorted(_add(view.partitions for view in views).items())),
        )


def _build_largest(seen: Sequence[_Seen], holders: Holders) -> Iterator[LargestView]:
    """For those who allocate: nobody gets anything of what drains."""
    for allocator, found in groupby(seen, key=lambda each: each.view.allocator):
        if allocator in (CONTROLLER, SCHEDULER):
            nodes = [each for each in found if each.masks.all and not each.view.is_cordoned]
            yield from (_find_largest(allocator, nodes, holders, scope) for scope in SCOPES if nodes)


def _find_largest(allocator: str, nodes: Sequence[_Seen], holders: Holders, scope: Scope) -> LargestView:
    known: dict[tuple[int, int], int] = {}
    sizes: dict[str, int] = {}
    for each in nodes:
        tables = each.node.shape.tables
        key = (id(tables), each.masks.free)
        if key not in known:
            known[key] = find_largest(tables, each.masks.free, scope)
        sizes[each.node.name] = known[key]
    size = max(sizes.values(), default=0)
    next_size = next((more for more in reversed(SIZES) if more > size and _fits_a_machine(nodes, more)), None)
    candidates = [Candidate(node=each.node, masks=each.masks) for each in nodes]
    return LargestView(
        allocator=allocator,
        scope=scope.value,
        size=size,
        nodes=tuple(name for name, each in sizes.items() if each == size and size),
        next_size=next_size,
        ways=() if next_size is None else choose_ways(candidates, holders, next_size, scope),
    )


def _fits_a_machine(nodes: Iterable[_Seen], size: int) -> bool:
    return any(each.masks.all.bit_count() >= size for each in nodes)


def _add(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def _texts(counts: Mapping[int, int]) -> dict[str, int]:
    """JSON has texts as keys."""
    return {str(size): count for size, count in counts.items()}
