"""Selectors that cost too much: refused for good, in plain words, after a bounded amount of work; cheap ones never."""

from __future__ import annotations

import pytest

from driver.allocator.cel_engine import CelEngine
from driver.allocator.device_node import SelectorFault
from driver.allocator.selector_meter import MOST_MEAN_UNITS, MOST_UNITS, SelectorMeter
from driver.api.resource_v1 import Attribute, Capacity, Device
from driver.cel.costs import LIMIT
from driver.cel.selector import check_admission, compile_selector
from tests.unit.allocator.cases import DRIVER

TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
UUID = f'device.attributes["{DRIVER}"].uuid'
WHOLE_MAP = f'device.attributes["{DRIVER}"].exists(k, k == "uuid")'


def nested(depth: int, body: str) -> str:
    """Ten times as slow with each level."""
    for level in range(depth):
        body = f"{TEN}.all(x{level}, {body})"
    return body


def gpu(number: int) -> Device:
    attributes = {"uuid": Attribute(string=f"GPU-{number}"), "productName": Attribute(string="H100")}
    return Device(name=f"gpu-{number}", attributes=attributes, capacity={"memory": Capacity(value="80Gi")})


def ask(engine: CelEngine, expression: str, number: int) -> bool | str:
    try:
        return engine.matches(expression, engine.view(DRIVER, gpu(number)))
    except SelectorFault as err:
        return str(err)


def test_a_slow_selector_that_the_api_server_takes_is_refused_on_its_first_device() -> None:
    slow = nested(5, f'{UUID} != "x"')
    check_admission(compile_selector(nested(4, f'{UUID} != "x"')))
    engine = CelEngine()
    told = ask(engine, slow, 0)
    assert isinstance(told, str)
    assert told.startswith("the selector is too slow: it cost 300,0")
    assert "units on one device; beyond 300,000 in all it may cost 1,000 a device" in told
    assert "loop over less" in told
    assert engine.refusals == 1


def test_a_refused_selector_is_asked_no_more_and_costs_no_more() -> None:
    engine = CelEngine()
    slow = nested(5, f'{UUID} != "x"')
    told = ask(engine, slow, 0)
    work = engine.work
    assert work < 2 * MOST_UNITS
    assert {ask(engine, slow, number) for number in range(1000)} == {told}
    assert engine.find_fault(slow) == told
    assert engine.work - work < 10_000
    assert engine.refusals == 1


def test_the_refusal_outlives_that_the_selector_is_forgotten() -> None:
    engine = CelEngine()
    slow = nested(5, f'{UUID} != "x"')
    told = ask(engine, slow, 0)
    for number in range(60):
        ask(engine, f'{UUID} == "{"x" * 9_900}{number}"', 0)
    work = engine.work
    assert ask(engine, slow, 1) == told
    assert engine.work - work < 100


def test_the_same_selector_on_the_same_devices_has_the_same_answer_each_time() -> None:
    slow = nested(4, f'{UUID} != "x"')
    told = [[ask(engine, slow, number) for number in range(6)] for engine in (CelEngine(), CelEngine())]
    assert told[0] == told[1]
    assert told[0][:3] == [True, True, True]
    assert "too slow: it cost 300,0" in str(told[0][3])
    assert "on 4 devices" in str(told[0][3])


def test_a_slow_selector_that_few_devices_are_asked_about_is_answered() -> None:
    engine = CelEngine()
    assert [ask(engine, nested(4, f'{UUID} != "x"'), number % 2) for number in range(100)] == [True] * 100
    assert engine.refusals == 0


def test_what_was_answered_of_a_device_does_not_count_again_even_if_it_was_read_as_a_whole() -> None:
    engine = CelEngine()
    slow = nested(2, WHOLE_MAP)
    assert compile_selector(slow).max_cost > MOST_MEAN_UNITS
    assert {ask(engine, slow, number % 8) for number in range(4000)} == {True}
    assert engine.refusals == 0
    assert "is too slow" in str([ask(engine, slow, number) for number in range(700)][-1])


@pytest.mark.parametrize(
    "expression",
    [
        f'{UUID} != "x"',
        f'{WHOLE_MAP} || device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("40Gi"))',
        " || ".join(f'{UUID} == "GPU-x{number}"' for number in range(170)),
    ],
    ids=["one attribute", "a whole map and a quantity", "as many texts as a selector can hold"],
)
def test_a_cheap_selector_is_never_refused_however_many_devices_there_are(expression: str) -> None:
    """Counted as if each of 80,000 devices were another one; the units are what one costs."""
    check_admission(compile_selector(expression))
    engine = CelEngine()
    for number in range(300):
        assert isinstance(ask(engine, expression, number), bool)
    view = engine.view(DRIVER, gpu(1))
    engine.matches(expression, view)
    meter = SelectorMeter()
    for _ in range(80_000):
        assert meter.limit() >= MOST_MEAN_UNITS
        meter.note(MOST_MEAN_UNITS)
    assert meter.find_excess() == ""


def test_kubernetes_own_limit_stays_an_evaluation_error() -> None:
    """A device on which kube-scheduler would give up as well, of a selector that is cheap on others."""
    meter = SelectorMeter(units=10_000, evaluations=5_000)
    assert meter.limit() == LIMIT


def test_a_meter_lets_the_mean_decide_beyond_what_is_free() -> None:
    meter = SelectorMeter()
    meter.note(MOST_UNITS)
    assert meter.find_excess() == ""
    assert meter.limit() == 0
    meter.note(1)
    assert "on 2 devices" in meter.find_excess()
    many = SelectorMeter(units=MOST_UNITS + 1, evaluations=1_000)
    assert many.find_excess() == ""


def test_many_long_selectors_are_forgotten_and_compiled_again() -> None:
    """They take a hundred times their length."""
    engine = CelEngine()
    texts = [f'{UUID} == "{"x" * 9_000}{number}"' for number in range(80)]
    for text in (*texts, *texts):
        assert ask(engine, text, 1) is False
    before = engine.work
    ask(engine, texts[-1], 1)
    assert engine.work - before < 100
    ask(engine, texts[0], 1)
    assert engine.work - before > 9_000


def test_a_view_that_was_forgotten_is_made_again() -> None:
    engine = CelEngine()
    view = engine.view(DRIVER, gpu(1))
    assert engine.matches(WHOLE_MAP, view)
    engine.forget(view)
    assert engine.matches(WHOLE_MAP, view)
