"""``gpu-dra simulate`` itself: real arrivals, real machines, the figures that are promised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from driver.cli.main import main
from driver.errors import SettingsInvalid

WINDOW = "tests/data/openb/pods_window.csv"
MULTIGPU30 = "tests/data/openb/pods_multigpu30.csv.gz"


def simulate(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main(["simulate", *args, "-o", "json"]) == 0
    decoded: dict[str, Any] = json.loads(capsys.readouterr().out)
    return decoded


def eights(report: dict[str, Any]) -> tuple[int, float, int]:
    waits = report["waits"]["8"]
    return waits["count"], waits["mean_s"], waits["over_1h"]


def test_a_window_of_openb_on_five_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    """What a replay of counts alone, written apart from this one, gives: 20 pods of 8 GPUs, 13,076 s, 5 over an hour."""
    report = simulate(capsys, "--nodes", "5", "--arrivals", WINDOW)
    count, mean_s, over_1h = eights(report)
    assert (count, round(mean_s, -1), over_1h) == (20, 13_080, 5)
    assert report["waits"]["1"]["mean_s"] == pytest.approx(16, abs=1)
    assert report["placed"]["percent_of_gpus"] == 100.0
    assert report["skipped_pods"] == 1131
    assert report["links"]["8"] == {"placed": 20, "ideal": 20, "nvlink": 20}


@pytest.mark.parametrize("policy", ["spread", "random"])
def test_others_let_large_pods_wait_longer(capsys: pytest.CaptureFixture[str], policy: str) -> None:
    report = simulate(capsys, "--nodes", "5", "--arrivals", WINDOW, "--policy", policy)
    assert eights(report)[1] > 5 * 13_076


def test_the_same_seed_gives_the_same_answer(capsys: pytest.CaptureFixture[str]) -> None:
    one, again, other = (
        simulate(capsys, "--nodes", "5", "--arrivals", WINDOW, "--policy", "random", "--seed", seed) for seed in ("1", "1", "2")
    )
    assert one == again
    assert one["waits"] != other["waits"]


def test_every_gpu_is_placed_without_departures(capsys: pytest.CaptureFixture[str]) -> None:
    """B2: as many GPUs as are asked for, and none is left over. 6,355 in a list where nobody leaves; 795 nodes have 6,360."""
    report = simulate(capsys, "--nodes", "795", "--arrivals", MULTIGPU30)
    assert report["placed"] == {"pods": 4342, "of_pods": 4342, "gpus": 6355, "of_gpus": 6355, "percent_of_gpus": 100.0}


def test_the_hold_rule_helps_the_large_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """On four nodes, where they starve; others pay for it with bounded waits."""
    without = simulate(capsys, "--nodes", "4", "--arrivals", WINDOW)
    rule = simulate(capsys, "--nodes", "4", "--arrivals", WINDOW, "--spare-patience", "28800")
    assert eights(rule)[1] < eights(without)[1]


STORY = """
pods:
  - {count: 1, times: 20, everySeconds: 1}
  - {count: 8, atSeconds: 100}
  - {count: 4, atSeconds: 101, scope: nvlink, mode: required}
"""


@pytest.mark.parametrize(("policy", "placed"), [("pack", 22), ("spread", 21)])
def test_the_islands_story(capsys: pytest.CaptureFixture[str], tmp_path: Path, policy: str, placed: int) -> None:
    """20 singles on 10 islands of four: packed, 5 islands stay whole; spread, an eight waits for ever beside 20 free GPUs."""
    (tmp_path / "story.yaml").write_text(STORY)
    arrivals = ("--arrivals", str(tmp_path / "story.yaml"))
    report = simulate(capsys, "--nodes", "5", "--machine", "hgx-a100-4x2", *arrivals, "--policy", policy)
    assert report["placed"]["pods"] == placed


def test_a_list_of_nodes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,2,P100\nn1,1,1,8,G2\nn2,1,1,0,\n")
    (tmp_path / "pods.csv").write_text("name,num_gpu\na,8\nb,2\nc,2\n")
    report = simulate(capsys, "--nodes", str(tmp_path / "nodes.csv"), "--arrivals", str(tmp_path / "pods.csv"))
    assert (report["nodes"], report["gpus"], report["machine"]) == (2, 10, "nodes.csv")
    assert report["placed"]["gpus"] == 10


def test_a_table_and_a_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text("name,num_gpu\na,8\nb,2\n")
    picture = tmp_path / "out.svg"
    assert main(["simulate", "--nodes", "1", "--arrivals", str(tmp_path / "pods.csv"), "--picture", str(picture)]) == 0
    assert "Waits by size of request" in capsys.readouterr().out
    assert picture.read_text().startswith("<svg")


def test_selectors_and_constraints_of_our_own_form(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Kubernetes' own language; what a selector refuses, or fails on, is never placed."""
    model = 'device.attributes["gpu.nvidia.com"].productName.matches("{}")'
    pods = [
        {"count": 4, "selector": model.format("H100"), "matchAttribute": "gpu.nvidia.com/nvlinkQuad"},
        {"count": 1, "selector": model.format("B200")},
        {"count": 1, "selector": 'device.attributes["gpu.nvidia.com"].nonsense == 1'},
    ]
    (tmp_path / "pods.yaml").write_text(json.dumps({"pods": pods}))
    report = simulate(capsys, "--nodes", "2", "--arrivals", str(tmp_path / "pods.yaml"))
    assert {size: waits["never_placed"] for size, waits in report["waits"].items()} == {"1": 2, "4": 0}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--nodes", "0", "--arrivals", WINDOW], "1 to 20000 nodes"),
        (["--nodes", "none.csv", "--arrivals", WINDOW], "--nodes none.csv: cannot be read"),
        (["--nodes", WINDOW, "--arrivals", WINDOW], "has the columns sn, gpu and model"),
        (["--nodes", "1", "--arrivals", "none.csv"], "--arrivals none.csv: cannot be read"),
        (["--nodes", "1", "--arrivals", WINDOW, "--machine", "abacus"], "no such machine"),
        (["--nodes", "1", "--arrivals", WINDOW, "--policy", "spread", "--hold-after", "1"], "are for --policy pack"),
        (["--nodes", "1", "--arrivals", WINDOW, "--picture", "/no/x.svg"], "name a file in a folder that is there"),
    ],
    ids=["no nodes", "no file of nodes", "not a list of nodes", "no arrivals", "no machine", "a rule of another", "picture"],
)
def test_what_is_wrong_is_said_with_exit_code_two(capsys: pytest.CaptureFixture[str], args: list[str], words: str) -> None:
    assert main(["simulate", *args]) == SettingsInvalid.exit_code
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("sn,gpu\na,many\n", "line 2: gpu: 'many' is no whole number"),
        ("sn,gpu\na,65\n", "line 2: 65 GPUs; 0 to 64 are possible"),
        ("sn,gpu\na,4\na,4\n", "line 3: node a is there twice; give each a name (sn) of its own"),
        ("sn,gpu\na,0\n", "no node with a GPU; docs/simulate.md has the form"),
        ("node,gpus\na,4\n", "a CSV list of nodes has the columns sn, gpu and model; this one has node, gpus"),
    ],
    ids=["no number", "too many", "twice", "none", "other names"],
)
def test_what_is_wrong_with_a_list_of_nodes(capsys: pytest.CaptureFixture[str], tmp_path: Path, lines: str, words: str) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text(lines)
    assert main(["simulate", "--nodes", str(nodes), "--arrivals", WINDOW]) == SettingsInvalid.exit_code
    assert f"--nodes {nodes}: {words}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("attribute", "hint"),
    [
        ("gpu.nvidia.com/nvlinkisland", "; did you mean gpu.nvidia.com/nvlinkIsland?"),
        ("nvlinkIsland", "; did you mean gpu.nvidia.com/nvlinkIsland?"),
        ("resource.kubernetes.io/pcieroot", "; did you mean resource.kubernetes.io/pcieRoot?"),
        ("example.com/colour", "; docs/attributes.md lists them"),
    ],
)
def test_an_attribute_that_no_device_has(capsys: pytest.CaptureFixture[str], tmp_path: Path, attribute: str, hint: str) -> None:
    """A pod that asks for it would only be said to fit nowhere."""
    pods = tmp_path / "pods.yaml"
    pods.write_text(f"pods: [{{count: 2, matchAttribute: {attribute}}}]")
    assert main(["simulate", "--nodes", "1", "--arrivals", str(pods)]) == SettingsInvalid.exit_code
    says = f"matchAttribute: no device of these nodes has the attribute {attribute}{hint}"
    assert says in capsys.readouterr().err


def test_pods_of_one_name_hold_gpus_of_their_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pods = tmp_path / "pods.yaml"
    pods.write_text(
        "pods: [{name: a, count: 4, runSeconds: 5, times: 1}, {name: a, count: 4, runSeconds: 9}, {name: b, count: 8}]"
    )
    report = simulate(capsys, "--nodes", "1", "--arrivals", str(pods))
    assert report["placed"]["pods"] == 3
    assert report["waits"]["8"]["mean_s"] == 9.0


@pytest.mark.parametrize("value", ["-1", "inf", "soon"])
def test_seconds_are_seconds(capsys: pytest.CaptureFixture[str], value: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "--nodes", "1", "--arrivals", WINDOW, f"--hold-after={value}"])
    assert ended.value.code == 2
    assert "--hold-after" in capsys.readouterr().err
