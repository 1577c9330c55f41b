"""Whatever a cluster looks like, everything in it can be explained, and what is said agrees with itself."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from itertools import combinations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from driver.api.topology_policy import Scope
from driver.cli.gpu.explain_tables import build_explain_tables
from driver.cli.gpu.explanation import build_explanation
from driver.cli.gpu.fragment_tables import build_fragmentation_tables
from driver.cli.gpu.fragments import build_fragmentation
from driver.cli.gpu.holders import Holders
from driver.cli.gpu.reading import hold_nodes
from driver.cli.gpu.sets import read_masks
from driver.cli.gpu.ways import Candidate, choose_ways
from driver.controller.deciding.decision import Place, decide
from driver.controller.objects.model import Claim, Pod
from tests.unit.cli.gpu.stories import gpu, read
from tests.unit.controller.world import CREATED, NOW_S, World, machine, policy, request

_MACHINES = ("hgx-a100-4x2", "dgx-h100", "dgx-1v", "l40s")
_SELECTORS = (
    "true",
    "device.attributes['gpu.nvidia.com'].productName.contains('H100')",
    "device.attributes['gpu.nvidia.com'].nothing == 1",
    "this is no CEL",
)


def any_world(rng: random.Random) -> World:
    """A cluster of a few nodes in any state, and claims and pods of any kind."""
    world = World()
    world.classes()
    kinds = {f"node-{number}": rng.choice(_MACHINES) for number in range(rng.randrange(5))}
    for name, kind in kinds.items():
        _add_node(world, rng, name, kind)
    for number in range(rng.randrange(8)):
        _add_holder(world, rng, f"held-{number}", kinds)
    for number in range(rng.randrange(1, 5)):
        _add_job(world, rng, f"job-{number}")
    return world


def _add_node(world: World, rng: random.Random, name: str, kind: str) -> None:
    value = rng.choice(("controller", "controller", "controller", "scheduler", "draining"))
    taints = [{"key": "example.com/x", "effect": "NoSchedule"}] if rng.random() < 0.2 else []
    if rng.random() < 0.9:
        world.node(name, None, taints=taints, unschedulable=rng.random() < 0.1)
    world.slice(name, machine(kind, value), of=rng.choice((1, 1, 1, 1, 2)))
    if rng.random() < 0.2:
        world.rule(f"rule-{name}", pool=name, device=gpu(kind, rng.randrange(8))[0])


def _add_holder(world: World, rng: random.Random, name: str, kinds: dict[str, str]) -> None:
    if not kinds:
        return
    node = rng.choice(sorted(kinds))
    world.claim(name, request())
    world.allocate(name, node, *rng.sample(gpu(kinds[node], *range(8)), rng.choice((1, 2, 4))))
    if rng.random() < 0.7:
        world.pod(
            name,
            name,
            **({"nodeName": node} if rng.random() < 0.7 else {}),
            status={"phase": rng.choice(("Running", "Failed"))},
        )


def _add_job(world: World, rng: random.Random, name: str) -> None:
    selectors = [{"cel": {"expression": rng.choice(_SELECTORS)}}] if rng.random() < 0.3 else []
    ask = request(
        device_class=rng.choice(("gpu", "topology", "topology", "topology", "none")),
        selectors=selectors,
        **({"allocationMode": "All"} if rng.random() < 0.1 else {"count": rng.choice((1, 2, 4, 8, 9))}),
    )
    devices: dict[str, object] = {}
    if rng.random() < 0.5:
        devices["config"] = [
            policy(mode=rng.choice(("required", "preferred")), scope=rng.choice(("nvlink", "numa", "pcie", "node")))
        ]
    if rng.random() < 0.3:
        devices["constraints"] = [{"matchAttribute": f"gpu.nvidia.com/{rng.choice(('nvlinkIsland', 'nothing'))}"}]
    pod: dict[str, object] = {}
    if rng.random() < 0.2:
        pod["nodeSelector"] = {"disk": "ssd"}
    if rng.random() < 0.1:
        pod["schedulingGates"] = [{"name": "example.com/gate"}]
    if rng.random() < 0.2:
        pod["containers"] = [{"name": "main", "resources": {"requests": {"cpu": "100"}}}]
    world.job(name, ask, devices=devices, created=rng.choice((CREATED, "2027-01-15T07:59:00Z")), **pod)


def widest(build: Callable[[int], RenderableType], width: int) -> int:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, emoji=False).print(build(width))
    return max(len(line.rstrip()) for line in out.getvalue().splitlines())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30))
def test_every_pod_and_claim_is_explained(seed: int) -> None:
    world = any_world(random.Random(seed))
    reading = read(world)
    for item in list(world.objects.values()):
        if isinstance(item, Pod | Claim):
            view = build_explanation(reading, item, (), NOW_S)
            assert view.summary
            assert msgspec.json.decode(msgspec.json.encode(view), type=type(view)) == view
            assert widest(lambda width, view=view: build_explain_tables(view, width, NOW_S, is_full=False), 80) <= 80  # type: ignore[misc]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30))
def test_a_node_fits_exactly_where_the_controller_would_place(seed: int) -> None:
    world = any_world(random.Random(seed))
    reading = hold_nodes(read(world), NOW_S)
    for demand in world.cluster.demands():
        decision = decide(world.cluster, demand, holds=reading.holds, now_s=NOW_S)
        view = build_explanation(reading, demand.pods[0], (), NOW_S)
        fitting = {each.node for each in view.nodes if each.verdict == "fits"}
        assert (view.state == "placeable") == isinstance(decision, Place) == bool(fitting)
        if isinstance(decision, Place):
            assert decision.node in fitting


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30))
def test_sums_are_the_sums_of_the_nodes_and_ways_free_enough(seed: int) -> None:
    world = any_world(random.Random(seed))
    view = build_fragmentation(world.cluster)
    assert sum(each.free for each in view.products) == sum(each.free for each in view.nodes)
    for node in view.nodes:
        assert node.free + node.allocated + node.unavailable == node.gpus
        assert sum(island.free for island in node.islands) == node.free
    for largest in view.largest:
        assert largest.next_size is None or largest.next_size > largest.size
        for way in largest.ways:
            assert way.free < way.size <= len(way.gpus)
            assert way.free + sum(holder.gpus for holder in way.held_by) >= way.size
            assert way.held_by
    assert widest(lambda width: build_fragmentation_tables(view, width, NOW_S, is_full=False), 80) <= 80


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30))
def test_no_set_has_fewer_claims_in_its_way_than_the_one_that_is_told(seed: int) -> None:
    """Against all sets of GPUs."""
    rng = random.Random(seed)
    world, kind = World(), rng.choice(_MACHINES)
    world.classes()
    world.node("node-a", machine(kind))
    names = list(gpu(kind, *range(8)))
    rng.shuffle(names)
    held: list[list[str]] = []
    while names and rng.random() < 0.8:
        held.append([names.pop() for _ in range(min(len(names), rng.choice((1, 1, 2, 3))))])
        world.claim(f"held-{len(held)}", request())
        world.allocate(f"held-{len(held)}", "node-a", *held[-1])
    node = world.cluster.fleet.nodes["node-a"]
    tables, masks = node.shape.tables, read_masks(node, world.cluster.fleet.taken("node-a"))
    owners = {node.positions[id_]: number for number, each in enumerate(held) for id_ in node.ids if id_.device in each}
    for scope, is_legal in (
        (Scope.NVLINK, tables.is_nvlink_ring),
        (Scope.NUMA, lambda mask: tables.numa_nodes(mask) == 1),
        (Scope.PCIE, lambda mask: tables.pcie_roots(mask) == 1),
        (Scope.NODE, bool),
    ):
        size = rng.choice((2, 4, 8))
        sets = (each for each in combinations(range(8), size) if is_legal(sum(1 << at for at in each)))
        fewest = min((len({owners[at] for at in each if at in owners}) for each in sets), default=None)
        ways = choose_ways([Candidate(node=node, masks=masks)], Holders(world.cluster), size, scope)
        assert [len(way.held_by) for way in ways] == ([] if fewest is None else [fewest])
