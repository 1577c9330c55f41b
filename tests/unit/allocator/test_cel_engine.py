"""The allocator with Kubernetes' own selector language."""

from __future__ import annotations

import pytest

from driver.allocator.cel_engine import CelEngine
from driver.allocator.decide import explain, place
from driver.allocator.device_node import SelectorFault
from driver.allocator.fleet import Fleet
from tests.unit.allocator.cases import DRIVER, ask, device, devices_of, pool, problem, request, selector

MODEL = f'device.attributes["{DRIVER}"].productName.startsWith("NVIDIA H100")'


def fleet() -> Fleet:
    made = Fleet(CelEngine())
    for name, machine in (("a", "dgx-a100"), ("h", "dgx-h100")):
        made.set_node(name, [pool(name, devices_of(machine))])
    return made


def test_selectors_choose_the_machine() -> None:
    found = place(fleet(), problem(ask(request(count=2, selectors=[selector(MODEL)]))))
    assert found is not None
    assert found.node == "h"


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("device.attributes[", "selector failed on"),
        ("device.driver", "selector failed on"),
        (f'device.attributes["{DRIVER}"].absent == 1', "no such key"),
    ],
    ids=["does not parse", "is no bool", "reads what is not there"],
)
def test_a_broken_selector_matches_nothing_and_says_why(expression: str, words: str) -> None:
    asked = problem(ask(request(selectors=[selector(expression)])))
    nodes = fleet()
    assert place(nodes, asked) is None
    assert words in explain(nodes, asked).text


def test_an_expression_is_compiled_once_and_a_flood_of_them_is_forgotten() -> None:
    engine = CelEngine()
    view = engine.view(DRIVER, device("gpu-0", size=1))
    for number in range(1030):
        assert engine.matches(f'device.attributes["{DRIVER}"].size == {number}', view) is (number == 1)
    with pytest.raises(SelectorFault):
        engine.matches("1", view)


def test_a_view_is_made_by_the_engine() -> None:
    with pytest.raises(TypeError):
        CelEngine().matches("true", object())
