"""``gpu-dra match`` says what was probably meant, and that a selector which fails costs the whole pod."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from driver.cel import build_view_of_values, compile_selector
from driver.cli.match_answers import Answer, build_answers, build_tables
from driver.cli.match_sources import Candidate
from driver.cli.tables import open_console

DRIVER = "gpu.nvidia.com"
VIEW = build_view_of_values(
    DRIVER, {"productName": {"string": "NVIDIA H100"}, "resource.kubernetes.io/numaNode": {"int": 0}}, {"memory": "80Gi"}
)


def answer_of(selector: str) -> Answer:
    return build_answers(compile_selector(selector), [Candidate(DRIVER, "node-a", "gpu-0", VIEW)])[0]


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ('device.attributes["gpu.nvidia.com"].productname == "x"', "did you mean productName?"),
        ('device.attributes["gpu.nvidia.com"].prodName == "x"', "did you mean productName?"),
        ('device.attributes["gpu.nvidia.com"].memory == "x"', 'it is in device.capacity["gpu.nvidia.com"]'),
        ('device.attributes["gpu.nvidia.com"].numaNode == 0', 'it is in "resource.kubernetes.io"'),
        ('device.attributes["gpu.nvidia.com"].colour == "x"', ""),
        ('device.attributes["gpu.nvidia.com"].productName == "x"', ""),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_the_one_that_is(selector: str, hint: str) -> None:
    assert [term["hint"] for term in answer_of(selector)["terms"]] == [hint]


@pytest.mark.parametrize(
    ("selector", "headline"),
    [
        ("true", "1 of 1 device matches"),
        (
            'device.attributes["gpu.nvidia.com"].x == 1',
            "0 of 1 device matches; the selector fails on 1: kube-scheduler gives up the pod",
        ),
    ],
)
def test_the_first_line_says_how_many_match_and_on_how_many_it_fails(selector: str, headline: str) -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(build_tables(compile_selector(selector), [answer_of(selector)]))
    assert out.getvalue().splitlines()[0] == headline


def test_a_long_term_stays_beside_its_count_and_no_line_ends_in_blanks() -> None:
    """What is compared, or copied from a terminal, has no blanks that nobody sees."""
    term = 'device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("90Gi"))'
    out = io.StringIO()
    open_console(out).print(build_tables(compile_selector(term), [answer_of(term), answer_of(term)]))
    lines = out.getvalue().splitlines()
    assert lines[-2:] == ["    2 x  " + term[:71], "         " + term[71:]]
    assert [line for line in lines if line != line.rstrip()] == []
    assert max(len(line) for line in lines) <= 80
