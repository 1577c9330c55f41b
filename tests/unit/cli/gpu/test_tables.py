"""What people see: it fits their terminal, says the same once, and what is worst stands out."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console, RenderableType

from driver.cli.gpu.explain_tables import build_explain_tables
from driver.cli.gpu.fragment_tables import build_fragmentation_tables
from driver.cli.gpu.fragments import build_fragmentation
from driver.cli.gpu.tables import age, describe_way, lines
from driver.cli.gpu.views import EventView, HolderView, WayView
from tests.unit.cli.gpu.stories import AT, BOARDS, cut_gpus, explain, gpu, islands, occupy
from tests.unit.controller.world import NOW_S, World, machine, policy, request

FIVE = ("node-a", "node-b", "node-c", "node-d", "node-e")
LONG = "a-node-with-a-very-long-name.of-a-rack.of-a-hall.example.com"


def text(view: RenderableType, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, emoji=False).print(view)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def fragmentation(world: World, *, width: int = 80, is_full: bool = False, notes: tuple[str, ...] = ()) -> str:
    view = build_fragmentation(world.cluster, notes)
    return text(build_fragmentation_tables(view, width, NOW_S, is_full=is_full), width)


def explained(world: World, name: str, *, width: int = 80, is_full: bool = False) -> str:
    return text(build_explain_tables(explain(world, name), width, NOW_S, is_full=is_full), width)


def test_fragmentation_of_the_islands_story() -> None:
    assert (
        fragmentation(islands("node-a", "node-b"))
        == """\
8 of 16 GPUs free on 2 nodes

Free sets of GPUs, and how many there could be
product                allocator   nodes  GPUs  free   8s   4s   2s
NVIDIA A100-SXM4-80GB  controller      2    16     8  0/1  0/2  4/4

The largest request that fits now
allocator   scope          GPUs  on
controller  all on NVLink     2  2 nodes: node-a, node-b
controller  one NUMA node     2  2 nodes: node-a, node-b
controller  one PCIe root     2  2 nodes: node-a, node-b
controller  one node          4  2 nodes: node-a, node-b

In the way of 4 GPUs, all on NVLink (controller)
  node-a: 2 free of GPUs 0-3; in the way: team/node-a-one (pod node-a-one, 2
  GPUs, for 1h30m)
  node-b: 2 free of GPUs 0-3; in the way: team/node-b-one (pod node-b-one, 2
  GPUs, for 1h30m)

In the way of 8 GPUs, one node (controller)
  node-a: 4 free of GPUs 0-7; in the way: team/node-a-one (pod node-a-one, 2
  GPUs, for 1h30m); team/node-a-two (pod node-a-two, 2 GPUs, for 1h30m)
  node-b: 4 free of GPUs 0-7; in the way: team/node-b-one (pod node-b-one, 2
  GPUs, for 1h30m); team/node-b-two (pod node-b-two, 2 GPUs, for 1h30m)

Nodes
node    allocator   GPUs  free  unfit  8s  4s  2s  islands
node-a  controller     8     4      0   0   0   2  2/4 2/4
node-b  controller     8     4      0   0   0   2  2/4 2/4"""
    )


def test_explain_of_the_islands_story() -> None:
    world = islands(*FIVE)
    world.job("big", request(device_class="topology", count=4), devices={"config": [policy(mode="required")]})
    assert (
        explained(world, "big")
        == """\
Pod team/big waits
  5 nodes, 20 free GPUs; need 4 on one NVLink island; largest free set is 2
  (node-a island 0, node-a island 1, node-b island 0, ...)

Claims
  big: not allocated
    gpus: 4 of class topology
    policy: nvlink required, pack

Pods
  pod  phase    node  age  now
  big  Pending  -      1h

Nodes
  node               answer           why
  node-a and 4 more  too few devices  needs 4 on one NVLink island; 4 of 8
                                      devices free, the largest free set is 2

In the way, where the least is
  node-a: 2 free of GPUs 0-3; in the way: team/node-a-one (pod node-a-one, 2
  GPUs, for 1h30m)
  node-b: 2 free of GPUs 0-3; in the way: team/node-b-one (pod node-b-one, 2
  GPUs, for 1h30m)
  node-c: 2 free of GPUs 0-3; in the way: team/node-c-one (pod node-c-one, 2
  GPUs, for 1h30m)"""
    )


def test_explain_of_a_pod_that_runs() -> None:
    world = islands("node-a", taken={})
    occupy(world, "runs", "node-a", gpu(BOARDS, 4, 5))
    assert (
        explained(world, "runs")
        == """\
Pod team/runs has its devices
  the pod runs on node node-a with 2 devices

Claims
  runs: allocated by controller 1h30m ago, node node-a
    gpus: 2 of class gpu
    request  device            pool    island  product
    gpus     gpu-0000-9e-00-0  node-a       1  NVIDIA A100-SXM4-80GB
    gpus     gpu-0000-a4-00-0  node-a       1  NVIDIA A100-SXM4-80GB
    linked by NVLink; as good as any 2 GPUs of this machine

Pods
  pod   phase    node    age  now
  runs  Running  node-a   1h"""
    )


def test_advice_stands_below_the_summary() -> None:
    world = islands("node-a")
    world.job("small")
    assert "  -> if it stays so, see whether the controller runs and leads" in explained(world, "small")


def test_every_node_has_a_row_where_all_are_wanted() -> None:
    world = islands(*FIVE)
    world.job("big", request(device_class="topology", count=4), devices={"config": [policy(mode="required")]})
    rows = [line.split()[0] for line in explained(world, "big", is_full=True).splitlines() if "too few devices" in line]
    assert rows == list(FIVE)


def test_many_nodes_that_are_alike_are_one_row() -> None:
    world = islands(*[f"node-{number:02}" for number in range(30)], taken={})
    shown = fragmentation(world)
    assert "node-00 and 29 more" in shown
    assert sum(line.startswith("node-") for line in shown.splitlines()) == 1
    assert sum(line.startswith("node-") for line in fragmentation(world, is_full=True).splitlines()) == 30


def test_many_kinds_of_answers_are_cut_and_it_is_said() -> None:
    world = islands(*[f"node-{number:02}" for number in range(30)])
    for number in range(30):
        world.node(f"node-{number:02}", machine(BOARDS), taints=[{"key": f"example.com/t{number}", "effect": "NoSchedule"}])
    world.job("big", request(device_class="topology", count=8))
    assert "10 more kinds of answers: --all-nodes, or -o json" in explained(world, "big")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_long_names_fit_the_terminal(width: int) -> None:
    world = World()
    world.classes()
    world.node(LONG, machine("dgx-h100"))
    world.node(
        "node-b", machine("dgx-h100"), taints=[{"key": "a.very.long.domain.example.com/with-a-name", "effect": "NoSchedule"}]
    )
    occupy(world, "a-claim-with-a-long-name", LONG, gpu("dgx-h100", 0))
    world.job("big", request(device_class="topology", count=8))
    for shown in (fragmentation(world, width=width), explained(world, "big", width=width)):
        assert max(len(line) for line in shown.splitlines()) <= width
        assert LONG in "".join(shown.split())


def test_nothing_to_show_is_said() -> None:
    assert fragmentation(World()) == "there are no devices of gpu.nvidia.com"


def test_what_could_not_be_read_comes_last() -> None:
    shown = fragmentation(islands("node-a"), notes=("persistentvolumes may not be listed (403): not looked at",))
    assert shown.splitlines()[-2:] == ["Take note", "  persistentvolumes may not be listed (403): not looked at"]


def test_whose_devices_and_which_nodes_are_cordoned() -> None:
    world = islands("node-a")
    world.node("node-b", machine(BOARDS), unschedulable=True)
    world.node("node-u", machine("dgx-h100", "scheduler"))
    world.node("node-x", machine("dgx-h100", "draining"))
    shown = fragmentation(world)
    for part in ("node-b (cordoned)", "kube-scheduler", "nobody now"):
        assert part in shown


def test_partitions_that_are_free_are_listed_for_each_node() -> None:
    shown = fragmentation(cut_gpus("node-a"))
    assert "MIG devices that are free, each looked at alone" in shown
    assert "  node-a: 14 x 1g.10gb, " in shown


def test_events_are_told_with_their_age_and_who_said_them_and_once() -> None:
    world = islands("node-a")
    world.job("small")
    note = "held for another, " * 5
    said = EventView(time=AT, reason="ClaimWaiting", note=note, reporter="gpu.nvidia.com/controller")
    view = msgspec.structs.replace(explain(world, "small"), events=(said, said))
    assert text(build_explain_tables(view, 80, NOW_S, is_full=False)).splitlines()[-3:] == [
        "What was said last",
        "  1h30m ago, controller: ClaimWaiting: held for another, held for another, held",
        "      for another, held for another, held for another,",
    ]


def test_a_time_that_is_not_told_has_no_age() -> None:
    assert (age("", NOW_S), age(AT, NOW_S)) == ("-", "1h30m")


def test_a_way_names_claims_without_pods() -> None:
    holder = HolderView(claim="team/kept", pods=(), gpus=1, since=AT, allocator="controller")
    way = WayView(node="node-a", scope="node", size=2, gpus=(0, 1), free=1, held_by=(holder,))
    assert describe_way(way, NOW_S) == "1 free of GPUs 0-1; in the way: team/kept (no pod, 1 GPU, for 1h30m)"


def test_lines_hang_below_their_head() -> None:
    assert [line.plain for line in lines("word " * 12, 40, head="-> ")] == [
        "  -> word word word word word word word",
        "     word word word word word",
    ]
