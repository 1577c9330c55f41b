"""What every table of ``kubectl gpu`` keeps, whatever the cluster and the terminal.

It fits, has no colours where nobody sees them, takes names of any length, and costs no more a node for a large fleet.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable

import msgspec
import pytest
from rich.console import RenderableType

from driver.cli.gpu.explain_tables import build_explain_tables
from driver.cli.gpu.fleet_picture import draw_fleet
from driver.cli.gpu.fragment_tables import build_fragmentation_tables
from driver.cli.gpu.fragments import build_fragmentation
from driver.cli.gpu.node_picture import draw_node
from driver.cli.gpu.status_tables import build_status_tables
from driver.cli.gpu.topology_tables import build_topology_tables
from driver.cli.tables import open_console
from driver.controller.objects.model import Pod
from tests.unit.cli.gpu.fleets import XID, partitioned, sick_fleet, status, taint, topology
from tests.unit.cli.gpu.stories import BOARDS, explain, gpu, islands, occupy, read
from tests.unit.controller.world import NOW_S, World, machine, request

WIDTHS = (60, 80, 120, 200)
LONG = "n" * 253
"""As long as Kubernetes lets a name be."""


def empty() -> World:
    world = World()
    world.classes()
    world.job("big", request(count=2))
    return world


def one() -> World:
    world = islands("node-a")
    world.job("big", request(count=8))
    return world


def mixed() -> World:
    world = sick_fleet()
    world.slice("node-y", machine(BOARDS), of=3)
    return world


def cut() -> World:
    world = partitioned()
    world.job("big", request(count=2))
    return world


def shared() -> World:
    world = empty()
    world.node(
        "node-s", [msgspec.structs.replace(each, allow_multiple_allocations=True) for each in machine(BOARDS, "scheduler")]
    )
    for number in range(3):
        world.claim(f"part-{number}", request())
        world.allocate(
            f"part-{number}", "node-s", gpu(BOARDS, 0)[0], shareID=f"s-{number}", consumedCapacity={"memory": f"{number + 1}Gi"}
        )
    return world


def long_names() -> World:
    world = islands(LONG)
    world.rule("r" * 253, pool=LONG)
    world.job("p" * 253, request(count=8))
    world.job("big", request(count=8))
    return world


def watched() -> World:
    """A monitor with admin access on a GPU that another claim has."""
    world = one()
    world.claim("monitor", request())
    world.allocate("monitor", "node-a", gpu(BOARDS, 0)[0], adminAccess=True)
    world.pod("monitor", "monitor", nodeName="node-a", status={"phase": "Running"})
    return world


def orphaned() -> World:
    """A claim that is reserved for a pod that was deleted."""
    world = one()
    occupy(world, "left", "node-a", gpu(BOARDS, 2))
    world.remove(Pod, "left")
    return world


FLEETS: dict[str, Callable[[], World]] = {
    "no nodes": empty,
    "one node": one,
    "fenced and not, sick, draining, half written": mixed,
    "MIG": cut,
    "shares": shared,
    "names of 253": long_names,
    "admin access": watched,
    "a claim of a deleted pod": orphaned,
}


def build_all(world: World, width: int) -> dict[str, RenderableType]:
    """Every table that there is of it."""
    seen, linked = topology(world)
    built = {
        "status": build_status_tables(seen, width, NOW_S, is_full=False),
        "status, all": build_status_tables(seen, width, NOW_S, is_full=True),
        "topology": build_topology_tables(linked, width, is_single=False, is_full=False),
        "fragmentation": build_fragmentation_tables(build_fragmentation(read(world).cluster), width, NOW_S, is_full=False),
        "explain": build_explain_tables(explain(world, "pod/big"), width, NOW_S, is_full=False),
        "status of a pod": build_status_tables(status(world, "pod/big"), width, NOW_S, is_full=False),
    }
    for node, each in zip(seen.nodes, linked.nodes, strict=True):
        view = msgspec.structs.replace(linked, nodes=(each,))
        built[f"topology {node.node}"] = build_topology_tables(view, width, is_single=True, is_full=False)
        built[f"status {node.node}"] = build_status_tables(status(world, f"node/{node.node}"), width, NOW_S, is_full=False)
    return built


def printed(renderable: RenderableType, width: int) -> list[str]:
    out = io.StringIO()
    console = open_console(out)
    console.width = width
    console.print(renderable)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("fleet", FLEETS)
def test_every_table_fits(fleet: str, width: int) -> None:
    for name, built in build_all(FLEETS[fleet](), width).items():
        widest = max(printed(built, width), key=len)
        assert len(widest.rstrip()) <= width, f"{name}: {widest}"


class Terminal(io.StringIO):
    """Somebody reads it."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "has_colours"),
    [
        pytest.param(Terminal, {"TERM": "xterm-256color"}, True, id="a terminal"),
        pytest.param(Terminal, {"TERM": "xterm-256color", "NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param(Terminal, {"TERM": "dumb"}, False, id="a dumb terminal"),
        pytest.param(io.StringIO, {"TERM": "xterm-256color"}, False, id="a pipe"),
        pytest.param(io.StringIO, {"TERM": "xterm-256color", "FORCE_COLOR": "1"}, False, id="a pipe, whatever rich would do"),
    ],
)
def test_colours_are_for_people_alone(
    stream: type[io.StringIO], environ: dict[str, str], has_colours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    out = stream()
    open_console(out).print(build_all(mixed(), 80)["status"])
    assert ("\x1b[3" in out.getvalue()) is has_colours


def test_long_names_are_there_whole() -> None:
    """Broken over lines, never cut: they can be copied."""
    built = build_all(long_names(), 80)
    for name in ("status", f"status {LONG}", f"topology {LONG}"):
        assert "".join("".join(printed(built[name], 80)).split()).count("n") >= 253


def test_who_only_watches_holds_nothing_and_is_told() -> None:
    world = watched()
    (use,) = status(world, "node-a").nodes[0].gpus[0].uses
    assert use.claim == "team/node-a-one"
    (device,) = status(world, "claim/monitor").claims[0].devices
    assert (device.is_admin, device.gpu) == (True, 0)
    shown = printed(build_status_tables(status(world, "claim/monitor"), 100, NOW_S, is_full=False), 100)
    assert "    GPU 0, only watched (admin access), gpu-0000-27-00-0: no trouble is known" in [line.rstrip() for line in shown]


def test_a_claim_of_a_deleted_pod_still_has_its_gpu() -> None:
    (use,) = status(orphaned(), "node-a").nodes[0].gpus[2].uses
    assert (use.claim, use.pods) == ("team/left", ("left",))


def test_a_pool_that_is_half_written_is_named_and_counts_for_nothing() -> None:
    view = status(mixed())
    assert "node-y" not in {each.node for each in view.nodes}
    assert view.notes == ("pool node-y (node node-y) is left out: incomplete: 1 of 3 slices; it is being updated",)


def measure_s(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def test_two_thousand_nodes_cost_no_more_a_node_than_two_hundred() -> None:
    """Ten times the nodes take ten times as long; thirty would be the beginning of a square."""
    small, large = (islands(*[f"node-{number:04}" for number in range(nodes)], taken={}) for nodes in (200, 2000))
    for world in (small, large):
        taint(world, "node-0007", BOARDS, 0, XID)

    def show(world: World) -> None:
        seen = status(world)
        printed(build_status_tables(seen, 80, NOW_S, is_full=False), 80)
        msgspec.json.encode(seen)
        draw_fleet(seen)

    assert measure_s(lambda: show(large)) < 30 * max(measure_s(lambda: show(small)) for _ in range(2))


@pytest.mark.parametrize("fleet", [name for name in FLEETS if name != "no nodes"])
def test_json_has_every_field_of_every_row_and_comes_back(fleet: str) -> None:
    seen, linked = topology(FLEETS[fleet]())
    for view in (seen, linked):
        again = msgspec.json.decode(msgspec.json.encode(view), type=type(view))
        assert again == view
    assert all(draw_node(each, seen.troubles).startswith("<svg") for each in linked.nodes)
