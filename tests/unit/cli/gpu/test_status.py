"""What ``kubectl gpu status`` says of a fleet, a node, a pod and a claim."""

from __future__ import annotations

import msgspec
import pytest

from driver.api.resource_v1 import Taint
from driver.cli.gpu.fleet_status import build_status
from driver.controller.objects.model import Claim
from tests.unit.cli.gpu.fleets import (
    SICK_SINCE,
    XID,
    condition,
    partitioned,
    read_fleet,
    show,
    sick_fleet,
    status,
    taint,
)
from tests.unit.cli.gpu.stories import BOARDS, gpu, islands, occupy
from tests.unit.controller.world import DRIVER, World, gpus, machine, request


def test_the_fleet_as_people_see_it() -> None:
    assert (
        show(status(sick_fleet()))
        == """\
32 GPUs on 4 nodes: 8 allocated, 15 free, 1 unfit, 8 closed; 2 unhealthy

Products
product              allocator       nodes  GPUs  fit  held  free  sick  islands
A100-SXM4-80GB       controller          2    16   14     8     7     2  4: 0/4
H100 80GB HBM3       kube-scheduler      1     8    8     0     8     0  8: 1/1
Tesla                nobody now          1     8    0     0     0     0  4: 0/2
V100-SXM2-16GB

Nodes
node    allocator       GPUs       free  sick
node-a  controller      !#.. ##..     4     1
node-b  controller      ##.x ##..     3     1
node-u  kube-scheduler  ........      8     0
node-x  nobody now      ---- ----     0     0
  # held  . free  x unfit  - not to be had now  ! held and sick

What is wrong
  node-a GPU 0: tainted with example.com/bad by DeviceTaintRule bad
  node-b GPU 3, for 5m: XID 79: the GPU fell off the bus. Drain the node and
    reboot it; if the GPU is lost again, have the card and its slot tested.

What waits
  claim      for  asks for
  team/big    1h  gpus: 4 of class topology
  team/gone   1h  claim gone: request gpus: DeviceClass nothing does not exist
  why: kubectl gpu explain big -n team"""
    )


def test_a_node_as_people_see_it() -> None:
    world = islands("node-b")
    taint(world, "node-b", BOARDS, 1, XID)
    assert (
        show(status(world, "node-b"), 100)
        == """\
Node node-b: 8 x NVIDIA A100-SXM4-80GB, 80.0 GiB each; allocator: controller; 4 held, 4 free, 1
unhealthy

GPU  island  pair  NUMA  health         held by
  0       0     0     0  ok             team/node-b-one (pod node-b-one) for 1h30m
  1       0     0     0  XID 79 for 5m  team/node-b-one (pod node-b-one) for 1h30m
  2       0     2     0  ok             free
  3       0     2     0  ok             free
  4       1     4     1  ok             team/node-b-two (pod node-b-two) for 1h30m
  5       1     4     1  ok             team/node-b-two (pod node-b-two) for 1h30m
  6       1     6     1  ok             free
  7       1     6     1  ok             free

What is wrong
  node-b GPU 1, for 5m: XID 79: the GPU fell off the bus. Drain the node and reboot it; if the GPU
    is lost again, have the card and its slot tested."""
    )


def test_a_divided_gpu_shows_who_has_its_parts_and_what_is_left() -> None:
    assert (
        show(status(partitioned(), "node-m"), 100)
        == """\
Node node-m: 2 x GPU; allocator: kube-scheduler; 1 held, 1 free

GPU  island  pair  NUMA  health  held by
  0       0     -     -  ok      1g.10gb slice 6: team/small (pod small) for 1h30m
                                 3g.40gb slices 0-3: team/large (pod large) for 1h30m
                                 free: 2 x 1g.10gb, 2 x 1g.10gb+7, 1 x 1g.20gb, 1 x 2g.20gb
  1       1     -     -  ok      free, whole or in MIG devices"""
    )


def test_a_pods_gpus_with_what_the_node_says_of_them() -> None:
    world = islands("node-a")
    taint(world, "node-a", BOARDS, 0, XID)
    name = gpu(BOARDS, 0)[0]
    uid = world.get(Claim, "node-a-one").metadata.uid
    view = status(world, "pod/node-a-one", statuses={uid: (condition(name, "node-a"),)})
    assert (
        show(view, 100)
        == """\
Pod team/node-a-one

Claims
  team/node-a-one (pod node-a-one): allocated by controller 1h30m ago, node node-a
    GPU 0, gpu-0000-27-00-0: not well
      for 5m: XID 79: the GPU fell off the bus. Drain the node and reboot it; if the GPU is lost
      again, have the card and its slot tested.
      Healthy=False: Xid: XID 79
    GPU 1, gpu-0000-2a-00-0: no trouble is known"""
    )


def test_a_claim_that_waits_is_told_with_what_it_asks_for() -> None:
    world = islands("node-a")
    world.job("big", request(count=8))
    assert (
        show(status(world, "claim/big"))
        == """\
Claim team/big

Claims
  team/big: waits for its devices

What waits
  claim     for  asks for
  team/big   1h  gpus: 8 of class gpu
  why: kubectl gpu explain big -n team"""
    )


def test_claims_that_nodes_complain_of_are_shown_with_the_fleet() -> None:
    world = islands("node-a")
    one, two = (world.get(Claim, name).metadata.uid for name in ("node-a-one", "node-a-two"))
    names = gpu(BOARDS, 0, 4)
    statuses = {one: (condition(names[0], "node-a"),), two: (condition(names[1], "node-a", "True"),)}
    shown = show(status(world, statuses=statuses))
    assert "Claims of which the node says something" in shown
    assert "team/node-a-one (pod node-a-one)" in shown
    assert "team/node-a-two (pod" not in shown


def test_a_taint_that_only_warns_leaves_the_gpu_fit() -> None:
    world = islands("node-a", taken={})
    taint(world, "node-a", BOARDS, 0, Taint(key=f"{DRIVER}/thermal", effect="None", time_added=SICK_SINCE))
    view = status(world)
    assert (view.counts.unhealthy, view.counts.free) == (0, 8)
    assert "node-a GPU 0, for 5m: it slows down because it is too hot; it only warns" in show(view)
    assert "thermal for 5m" in show(status(world, "node-a"))


def test_without_claims_nobody_says_what_is_free() -> None:
    view = status(islands("node-a"), are_claims_known=False, notes=("you may not list resourceclaims",))
    assert {each.state for each in view.nodes[0].gpus if not each.uses} == {"unknown"}
    assert view.counts.free == 0
    assert "4 not known" in show(view)
    assert show(view).splitlines()[-2:] == ["Take note", "  you may not list resourceclaims"]


def test_nodes_that_are_cordoned_or_not_ready_are_marked() -> None:
    world = islands("node-a")
    world.node("node-b", machine(BOARDS), unschedulable=True)
    shown = show(status(world, not_ready=frozenset({"node-b"})))
    assert "node-b (cordoned, not ready)" in shown


def test_many_alike_nodes_are_one_row_and_the_sick_one_stands_alone() -> None:
    world = islands(*[f"node-{number:02}" for number in range(30)], taken={})
    taint(world, "node-07", BOARDS, 0, XID)
    rows = [line for line in show(status(world)).splitlines() if line.startswith("node-")]
    assert [row.split()[:3] for row in rows] == [["node-07", "controller", "x..."], ["node-00", "and", "28"]]
    full = [line for line in show(status(world), is_full=True).splitlines() if line.startswith("node-")]
    assert len(full) == 30


def test_a_gpu_with_many_marks_is_counted() -> None:
    world = World()
    world.classes()
    world.node("wide", gpus(64))
    occupy(world, "a", "wide", [f"gpu-{number}" for number in range(20)])
    assert "20# 44." in show(status(world))


def test_a_pool_that_is_being_written_is_told() -> None:
    world = islands("node-a")
    world.slice("node-b", machine(BOARDS), of=2)
    assert status(world).notes == ("pool node-b (node node-b) is left out: incomplete: 1 of 2 slices; it is being updated",)
    assert status(world, "node-b").nodes == ()


def test_no_devices_at_all() -> None:
    assert show(status(World())) == "there are no devices of gpu.nvidia.com"


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_it_fits_the_terminal(width: int) -> None:
    world = sick_fleet()
    for view in (status(world), status(world, "node-a"), status(partitioned(), "node-m"), status(world, "pod/node-a-one")):
        assert max(len(line) for line in show(view, width).splitlines()) <= width


def test_shares_of_a_gpu_are_told_with_their_memory() -> None:
    world = World()
    world.classes()
    shared = [msgspec.structs.replace(each, allow_multiple_allocations=True) for each in machine(BOARDS, "scheduler")]
    world.node("node-s", shared)
    name = gpu(BOARDS, 0)[0]
    world.claim("part", request())
    world.allocate("part", "node-s", name, shareID="s-1", consumedCapacity={"memory": "20Gi"})
    view = status(world)
    row = view.nodes[0].gpus[0]
    assert (row.state, row.is_shareable, [use.memory for use in row.uses], view.nodes[0].shares) == ("parts", True, ["20Gi"], 1)
    assert "20.0 GiB: team/part (no pod)" in show(status(world, "node-s"), 120)


def test_a_large_fleet_is_one_page() -> None:
    """Every node has its rows in the JSON; people see what is alike once."""
    world = islands(*[f"node-{number:04}" for number in range(200)], taken={})
    view = build_status(read_fleet(world))
    assert len(view.nodes) == 200
    assert len(show(view).splitlines()) < 30
