"""Python's limit on frames is raised with the first import, and deep selectors are compiled and answered below it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from driver.cel.parser import parse
from tests.unit.cel.engine import answer


def test_the_limit_is_there_before_the_first_selector() -> None:
    """A test library that sets the limit around a test fails where a selector changes it meanwhile."""
    code = "import sys; assert sys.getrecursionlimit() < 12_000; import driver.cel; assert sys.getrecursionlimit() == 12_000"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_limit_that_somebody_lowered_is_raised_again() -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(3_000)
    try:
        parse("true")
        assert sys.getrecursionlimit() == 12_000
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("(" * 249 + "true" + ")" * 249, id="brackets"),
        pytest.param("false ? false : " * 248 + "true", id="conditions"),
        pytest.param("1" + " + 1" * 249 + " == 250", id="sums"),
        pytest.param("[" * 200 + "1" + "]" * 200 + " != []", id="lists"),
        pytest.param("[1].all(x, " * 80 + "true" + ")" * 80, id="macros"),
    ],
)
def test_the_deepest_selectors_are_answered(source: str) -> None:
    assert answer(source) is True
