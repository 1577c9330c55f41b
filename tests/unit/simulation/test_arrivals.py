"""Lists of pods: what is read, what is skipped, what is refused and how that is said."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from driver.api.topology_policy import Mode, Packing, Policy, Scope
from driver.cli.simulation.arrivals import Arrival, parse_csv, parse_yaml, read_arrivals, without_departures
from driver.errors import SettingsInvalid

HEAD = "name,cpu_milli,num_gpu,gpu_milli,creation_time,deletion_time\n"


def test_whole_gpu_pods_of_the_openb_form_in_order_of_arrival() -> None:
    """Shares of a GPU and pods without one are counted and left out; equal times keep the list's order."""
    text = HEAD + "b,1,2,1000,50,80\na,1,1,1000,10,25\nshare,1,1,460,0,9\ncpu,1,0,0,0,9\nc,1,8,1000,50,\n"
    found = parse_csv(text.encode(), "x.csv")
    assert found.skipped == 2
    assert found.pods == (
        Arrival(name="a", at_s=10.0, run_s=15.0, count=1),
        Arrival(name="b", at_s=50.0, run_s=30.0, count=2),
        Arrival(name="c", at_s=50.0, run_s=math.inf, count=8),
    )


def test_numbers_that_were_through_other_programs() -> None:
    found = parse_csv((HEAD + "a,1,8.0,1000.0,1.5e1,20.0\n").encode(), "x.csv")
    assert found.pods == (Arrival(name="a", at_s=15.0, run_s=5.0, count=8),)


def test_a_list_without_times_comes_one_by_one_and_stays() -> None:
    found = parse_csv(b"name,num_gpu\na,1\nb,4\n", "x.csv")
    assert [(pod.at_s, pod.run_s, pod.count) for pod in found.pods] == [(0.0, math.inf, 1), (1.0, math.inf, 4)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name\na\n", "no column num_gpu"),
        ("", "no column name"),
        (HEAD + "a,1,x,1000,0,1\n", "line 2: num_gpu: 'x' is no number"),
        (HEAD + "a,1,1.5,1000,0,1\n", "line 2: num_gpu: 1.5 is no whole number"),
        (HEAD + "a,1,1,1000,soon,1\n", "line 2: creation_time: 'soon' is no number"),
        (HEAD + "a,1,1,1000,nan,1\n", "line 2: creation_time: 'nan' is no number"),
        (HEAD + "a,1,1\n", "line 2: fewer fields"),
        (HEAD + "a,1,33,1000,0,1\n", "line 2: num_gpu: 33; a claim can have 32 GPUs at most"),
        ("name,gpus\na,1\n", "no column num_gpu; a CSV list has at least name, num_gpu; this one has name, gpus"),
        (HEAD, "no pod to play; docs/simulate.md has the form"),
        (HEAD + "a,1,0,0,0,1\n", "no pod to play (of 1, none asks for a whole GPU)"),
    ],
    ids=[
        "no count",
        "empty",
        "count",
        "half a GPU",
        "time",
        "no number",
        "short line",
        "too many GPUs",
        "another name",
        "no line",
        "no whole GPU",
    ],
)
def test_what_is_wrong_with_a_csv_is_said_with_its_line(text: str, words: str) -> None:
    with pytest.raises(SettingsInvalid, match=r"--arrivals x\.csv: ") as caught:
        parse_csv(text.encode(), "x.csv")
    assert words in str(caught.value)


def test_our_own_form() -> None:
    text = b"""
pods:
  - {name: train, count: 4, atSeconds: 10, runSeconds: 60, times: 2, everySeconds: 5, scope: numa, mode: required}
  - {count: 1, packing: spread, matchAttribute: gpu.nvidia.com/nvlinkPair, selector: "true"}
"""
    train = Policy(scope=Scope.NUMA, mode=Mode.REQUIRED)
    assert parse_yaml(text, "x.yaml").pods == (
        Arrival(
            name="pods[1]",
            at_s=0.0,
            run_s=math.inf,
            count=1,
            policy=Policy(packing=Packing.SPREAD),
            match_attribute="gpu.nvidia.com/nvlinkPair",
            selector="true",
        ),
        Arrival(name="train-0", at_s=10.0, run_s=60.0, count=4, policy=train),
        Arrival(name="train-1", at_s=15.0, run_s=60.0, count=4, policy=train),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "pods: 1",
            "Expected `array`, got `int` - at `$.pods`; write a list, [a, b], also for one (docs/simulate.md has the form)",
        ),
        ("[{count: 1}]", "Expected `object`, got `array`"),
        ("pod: [{count: 1}]", "unknown field `pod`; did you mean pods?"),
        ("pods: [{}]", "missing required field `count` - at `$.pods[0]`"),
        ("pods: [{count: 0}]", "Expected `int` >= 1 - at `$.pods[0].count`"),
        ("pods: [{count: 33}]", "Expected `int` <= 32 - at `$.pods[0].count`"),
        ("pods: [{cout: 1}]", "unknown field `cout` - at `$.pods[0]`; did you mean count?"),
        ("pods: [{count: 1, scope: nvlnk}]", "Invalid enum value 'nvlnk' - at `$.pods[0].scope`; did you mean nvlink?"),
        ("pods: [{count: 1, mode: must}]", "Invalid enum value 'must' - at `$.pods[0].mode`; one of preferred, required"),
        ("pods: [{count: 1, times: 0}]", "Expected `int` >= 1 - at `$.pods[0].times`"),
        ("pods: [{count: 1, times: 600000}, {count: 1, times: 600000}]", "more than 1000000 pods"),
        ("pods: [{count: 1, runSeconds: 1h}]", "Expected `float | null`, got `str` - at `$.pods[0].runSeconds`"),
        ("pods: [{count: 1, atSeconds: .inf}]", "Expected `float` <= 1000000000000.0 - at `$.pods[0].atSeconds`"),
        ("pods: [{count: 1, everySeconds: .nan}]", "Expected `float` >= 0.0 - at `$.pods[0].everySeconds`"),
        ("pods: []", "no pod to play; docs/simulate.md has the form"),
        ("[", "is not YAML: while parsing a flow node"),
        ("pods: [{count: 1, selector: device.atributes}]", "did you mean device.attributes?"),
    ],
)
def test_what_is_wrong_with_a_yaml_is_said_with_what_would_be_right(text: str, words: str) -> None:
    with pytest.raises(SettingsInvalid, match=r"--arrivals x\.yaml: ") as caught:
        parse_yaml(text.encode(), "x.yaml")
    assert words in str(caught.value)


def test_pods_of_one_name_are_told_apart() -> None:
    """Each holds GPUs of its own."""
    found = parse_yaml(b"pods: [{name: a, count: 1}, {name: a, count: 2}, {name: b, count: 1}]", "x.yaml")
    assert [pod.name for pod in found.pods] == ["a", "a (2)", "b"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match="cannot be read: No such file"):
        read_arrivals(tmp_path / "none.csv")


def test_the_name_of_the_file_tells_its_form(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("pods: [{count: 2}]")
    (tmp_path / "a.csv").write_text("name,num_gpu\na,1\n")
    assert read_arrivals(tmp_path / "a.yml").pods[0].count == 2
    assert read_arrivals(tmp_path / "a.csv").pods[0].count == 1


def test_without_departures_nobody_ends() -> None:
    found = without_departures(parse_csv((HEAD + "a,1,1,1000,0,5\n").encode(), "x"))
    assert [pod.run_s for pod in found.pods] == [math.inf]
