"""Why pods were never placed: the nearest miss in numbers, once for all that ask for the same, as table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driver.allocator.cel_engine import CelEngine
from driver.cli.main import main
from driver.cli.simulation.arrivals import Arrival
from driver.cli.simulation.choosers import ControllerChooser, FirstFitChooser, build_chooser
from driver.cli.simulation.fleets import build_fleet, name_nodes, plain_devices
from driver.cli.simulation.never import NeverPlaced, build_never_placed
from driver.cli.simulation.replay import Replay

LIST = """
pods:
  - {name: stay, count: 3, times: 2}
  - {name: whole, count: 8, atSeconds: 5, times: 3, everySeconds: 10}
  - {name: island, count: 4, atSeconds: 9, scope: nvlink, mode: required, times: 2}
  - {name: other, count: 1, atSeconds: 9, selector: 'device.attributes["gpu.nvidia.com"].productName == "B200"'}
"""


def pod(name: str, count: int, at_s: float = 0.0, run_s: float = float("inf")) -> Arrival:
    return Arrival(name=name, at_s=at_s, run_s=run_s, count=count)


def never(chooser: ControllerChooser | FirstFitChooser, pods: list[Arrival]) -> tuple[NeverPlaced, ...]:
    replay = Replay(chooser)
    replay.run(pods, lambda _arrived: None)
    return build_never_placed(replay.waiting, lambda each: id(chooser.problem_of(each)), chooser.explain)


def play(policy: str, pods: list[Arrival]) -> tuple[NeverPlaced, ...]:
    return never(build_chooser(policy, build_fleet(name_nodes(2, plain_devices(4, "G")), CelEngine()), seed=1, rule=None), pods)


def test_the_nearest_miss_is_told_in_numbers() -> None:
    assert play("spread", [pod("a", 1), pod("b", 1), pod("c", 4)]) == (
        NeverPlaced(
            gpus=4,
            pods=1,
            first="c",
            reason="2 nodes, 6 free GPUs; need 4 on one node; largest free set is 3 (node-00, node-01)",
            nodes=2,
            free_gpus=6,
            taken_gpus=2,
            scope="one node",
            largest_free_set=3,
            where=("node-00", "node-01"),
        ),
    )


@pytest.mark.parametrize("policy", ["pack", "spread", "first-fit", "random"])
def test_pods_that_ask_for_the_same_are_one_entry_in_order_of_arrival(policy: str) -> None:
    found = play(policy, [pod("big-0", 5), pod("huge", 6, 1), pod("big-1", 5, 2), pod("small", 1, 3)])
    assert [(each.first, each.gpus, each.pods) for each in found] == [("big-0", 5, 2), ("huge", 6, 1)]


@pytest.mark.parametrize("policy", ["pack", "spread", "first-fit", "random"])
def test_who_waited_and_was_placed_is_not_among_them(policy: str) -> None:
    assert play(policy, [pod("a", 4, run_s=10), pod("b", 4, run_s=10), pod("c", 4, 1)]) == ()


def test_a_miss_is_what_it_was_at_the_end_and_not_when_the_pod_came() -> None:
    [found] = play("pack", [pod("a", 4, run_s=10), pod("b", 4, run_s=10), pod("c", 5, 1)])
    assert (found.free_gpus, found.taken_gpus, found.largest_free_set) == (8, 0, 4)


@pytest.fixture
def arrivals(tmp_path: Path) -> str:
    file = tmp_path / "pods.yaml"
    file.write_text(LIST)
    return str(file)


def test_the_table_says_why(arrivals: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--nodes", "2", "--machine", "hgx-a100-4x2", "--arrivals", arrivals, "--policy", "spread"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "Never placed: why, when nothing could happen any more whole-0 and 2 alike for 8 GPUs: 2 nodes, " in text
    assert "need 8 on one node; largest free set is " in text
    assert "other for 1 GPU: 2 nodes, 0 free GPUs; no device of theirs matches request gpus" in text


def test_programs_get_the_numbers(arrivals: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["simulate", "--nodes", "1", "--machine", "hgx-a100-4x2", "--arrivals", arrivals, "-o", "json"]
    assert main(argv) == 0
    found = {each["first"]: each for each in json.loads(capsys.readouterr().out)["never_placed"]}
    assert set(found) == {"whole-0", "island-0", "other"}
    assert found["island-0"] == {
        "gpus": 4,
        "pods": 2,
        "first": "island-0",
        "reason": "1 node, 2 free GPUs; need 4 on one NVLink island; "
        "largest free set is 1 (node-00 island 0, node-00 island 1)",
        "nodes": 1,
        "free_gpus": 2,
        "taken_gpus": 6,
        "scope": "one NVLink island",
        "largest_free_set": 1,
        "where": ["node-00 island 0", "node-00 island 1"],
    }


def test_where_all_were_placed_there_is_nothing_to_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text("pods: [{name: a, count: 1}]")
    assert main(["simulate", "--nodes", "1", "--arrivals", str(file)]) == 0
    assert "Never placed" not in capsys.readouterr().out


def test_many_kinds_are_cut_with_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text("pods:\n" + "".join(f"  - {{name: p{count}, count: {count}}}\n" for count in range(9, 22)))
    assert main(["simulate", "--nodes", "1", "--arrivals", str(file)]) == 0
    out = capsys.readouterr().out
    assert ("p18 for 18 GPUs" in out, "p19" in out) == (True, False)
    assert "3 other kinds of pods: -o json has all" in out
