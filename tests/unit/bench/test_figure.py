"""The arithmetic of figures."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hack.bench.figure import Figure, Target, median_ratio, percentile, round_digits


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        pytest.param([7.0], 0.95, 7.0, id="one-value-is-every-percentile"),
        pytest.param([3.0, 1.0, 2.0], 0.5, 2.0, id="median-of-three-in-any-order"),
        pytest.param([1.0, 2.0], 0.5, 1.5, id="median-of-two-lies-between-them"),
        pytest.param([float(n) for n in range(101)], 0.95, 95.0, id="p95-of-a-hundred"),
        pytest.param([1.0, 2.0, 3.0], 1.0, 3.0, id="the-whole-is-the-largest"),
        pytest.param([1.0, 2.0, 3.0], 0.0, 1.0, id="nothing-is-the-smallest"),
    ],
)
def test_percentile(values: list[float], share: float, expected: float) -> None:
    """Between neighbours by proportion."""
    assert percentile(values, share) == expected


def test_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 0.5)


@given(st.lists(st.floats(min_value=0.001, max_value=1e6), min_size=1), st.floats(min_value=0, max_value=1))
def test_percentile_lies_among_the_values(values: list[float], share: float) -> None:
    """No percentile is outside of what was measured (but for rounding)."""
    found = percentile(values, share)
    assert min(values) <= found * (1 + 1e-9)
    assert found <= max(values) * (1 + 1e-9)


def test_ratio_is_of_pairs_so_that_a_slow_minute_falls_on_both() -> None:
    """Divided medians would say 20 here."""
    values = [2.0, 2.0, 20.0, 200.0, 200.0]
    floor = [1.0, 1.0, 10.0, 100.0, 100.0]
    assert median_ratio(values, floor) == 2.0
    assert median_ratio(values, list(reversed(floor))) == 2.0
    assert median_ratio([2.0, 20.0, 20.0], [1.0, 1.0, 10.0]) == 2.0


@pytest.mark.parametrize(
    ("values", "floor", "words"),
    [
        pytest.param([1.0, 2.0], [1.0], "no pairs", id="one-has-no-partner"),
        pytest.param([1.0], [0.0], "floor of nothing", id="floor-of-zero"),
    ],
)
def test_ratio_without_meaning_is_refused(values: list[float], floor: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        median_ratio(values, floor)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(1234.567, 1235.0, id="thousands"),
        pytest.param(0.00123456, 0.001235, id="thousandths"),
        pytest.param(-0.00123456, -0.001235, id="negative"),
        pytest.param(0.0, 0.0, id="zero"),
        pytest.param(math.inf, math.inf, id="infinite"),
    ],
)
def test_four_digits_count(value: float, expected: float) -> None:
    assert round_digits(value) == expected


def test_line_of_a_figure_without_a_floor() -> None:
    figure = Figure(name="stop", unit="s", values=[1.0, 3.0, 2.0])
    assert json.loads(figure.encode_line()) == {"name": "stop", "value": 2.0, "unit": "s", "p50": 2.0, "p95": 2.9, "n": 3}


def test_line_of_a_figure_with_floor_target_and_detail() -> None:
    figure = Figure(
        name="prepare",
        unit="ms",
        values=[4.0, 8.0],
        floor=[2.0, 2.0],
        target=Target(of="ratio", at_most=2.5),
        detail={"gpus": 64, "threads": 3.14159},
    )
    assert json.loads(figure.encode_line()) == {
        "name": "prepare",
        "value": 6.0,
        "unit": "ms",
        "p50": 6.0,
        "p95": 7.8,
        "n": 2,
        "floor_p50": 2.0,
        "floor_p95": 2.0,
        "ratio": 3.0,
        "target": "ratio <= 2.5",
        "met": False,
        "gpus": 64,
        "threads": 3.142,
    }


@pytest.mark.parametrize(
    ("target", "value", "is_met"),
    [
        pytest.param(Target(of="p50", at_most=1.0), 1.0, True, id="at-most-includes-itself"),
        pytest.param(Target(of="p50", at_most=1.0), 1.01, False, id="above"),
        pytest.param(Target(of="p50", at_least=100.0), 100.0, True, id="at-least-includes-itself"),
        pytest.param(Target(of="p50", at_least=100.0), 99.0, False, id="below"),
    ],
)
def test_target(target: Target, value: float, is_met: bool) -> None:
    assert target.is_met(value) is is_met


def test_target_of_a_field_that_the_figure_lacks_says_nothing() -> None:
    """A ratio needs a floor."""
    fields = Figure(name="x", unit="s", values=[1.0], target=Target(of="ratio", at_most=1.0)).build_fields()
    assert "target" not in fields
    assert "met" not in fields


def test_targets_read_as_conditions() -> None:
    assert [str(Target(of="p95", at_most=0.5)), str(Target(of="p50", at_least=462.0))] == ["p95 <= 0.5", "p50 >= 462"]
