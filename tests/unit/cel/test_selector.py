"""The interface: selectors, views, admission, terms, and the two ways to evaluate."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driver.api.resource_v1 import Attribute, Capacity, Device
from driver.cel import (
    EvaluationError,
    Explainer,
    Features,
    SelectorError,
    SelectorRefused,
    build_view,
    build_view_of_values,
    check_admission,
    compile_selector,
)
from hack.oracle.grammar import Generator
from hack.oracle.ours import view_of
from tests.unit.cel.engine import ALL, DRIVER, VIEW, answer

_DEVICES: dict[str, Any] = json.loads((Path(__file__).parents[3] / "hack/oracle/devices.json").read_text())


def test_a_selector_knows_what_it_is() -> None:
    selector = compile_selector("device.driver == 'a'")
    assert (selector.source, selector.result_type, selector.max_cost) == ("device.driver == 'a'", "bool", 3)
    assert selector.features == Features()
    assert selector.answer(VIEW).cost <= selector.max_cost


def test_a_fault_has_its_place_and_its_reason() -> None:
    with pytest.raises(SelectorError) as caught:
        compile_selector("device.driver == 'a' && nothing")
    assert caught.value.span.start == 24
    assert "nothing" in str(caught.value)
    assert len(caught.value.faults) == 1


def test_all_faults_are_told() -> None:
    with pytest.raises(SelectorError) as caught:
        compile_selector("one && two")
    assert len(caught.value.faults) == 2


def test_a_missing_attribute_is_an_error_not_a_no() -> None:
    with pytest.raises(EvaluationError, match="no such key: nothing"):
        compile_selector('device.attributes["gpu.nvidia.com"].nothing == 1').matches(VIEW)


def test_a_selector_of_dyn_type_has_to_say_bool() -> None:
    assert answer("dyn(true)") is True
    assert str(answer("dyn(1)")).startswith("evaluate: ")
    assert answer('device.attributes["gpu.nvidia.com"].mig') is False


def test_list_attributes_need_the_feature() -> None:
    source = 'device.attributes["gpu.nvidia.com"].index.includes(3)'
    assert answer(source) is True
    assert str(answer(source, features=Features())).startswith("compile: ")


def test_multiple_allocations_need_the_feature() -> None:
    off = Features(list_attributes=False, consumable_capacity=False)
    assert str(answer("device.allowMultipleAllocations", features=off)).startswith("compile: ")


def test_the_api_server_refuses_what_is_too_long() -> None:
    with pytest.raises(SelectorRefused):
        check_admission(compile_selector("true" + " && true" * 1_300))


def test_the_api_server_refuses_what_may_cost_too_much() -> None:
    loops = "".join(f'device.attributes["a"].all({name}, ' for name in "klmn")
    selector = compile_selector(f"{loops}k == l && m == n))))")
    with pytest.raises(SelectorRefused):
        check_admission(selector)


def test_the_api_server_takes_an_ordinary_selector() -> None:
    check_admission(compile_selector('device.attributes["gpu.nvidia.com"].productName.matches("H100")'))


def _wire_device() -> Device:
    return Device(
        name="gpu-0",
        attributes={
            "index": Attribute(int_=0),
            "mig": Attribute(bool_=True),
            "other.example.com/tag": Attribute(string="x"),
            "driverVersion": Attribute(version="560.35.3"),
        },
        capacity={"memory": Capacity(value="80Gi"), "other.example.com/lanes": Capacity(value="16")},
    )


@pytest.mark.parametrize(
    "source",
    [
        'device.attributes["gpu.nvidia.com"].mig',
        'device.attributes["other.example.com"].tag == "x"',
        'device.attributes["gpu.nvidia.com"].driverVersion == semver("560.35.3")',
        'device.capacity["other.example.com"].lanes == quantity("16")',
        "!device.allowMultipleAllocations",
        '!("tag" in device.attributes["gpu.nvidia.com"])',
    ],
)
def test_a_device_as_the_api_has_it(source: str) -> None:
    assert compile_selector(source).matches(build_view(DRIVER, _wire_device()))


def test_an_attribute_that_is_no_version_fails_the_selector_that_looks_at_it() -> None:
    view = build_view_of_values(DRIVER, {"v": {"version": "x"}, "ok": {"bool": True}}, {}, allows_multiple=False)
    assert str(answer('device.attributes["gpu.nvidia.com"].v == semver("1.0.0")', view)).startswith("evaluate: ")


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from(sorted(_DEVICES)))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_both_ways_to_evaluate_agree(seed: int, lists: bool, device: str) -> None:
    """``answer`` compares them."""
    view = view_of(_DEVICES[device], "gpu.example.com")
    features = Features(list_attributes=lists, consumable_capacity=True)
    assert str(answer(Generator(seed, lists=lists).selector(), view, features)) != ""


def test_each_term_is_explained() -> None:
    source = 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].index == 4 && 1 / 0 == 1'
    terms = Explainer(compile_selector(source, features=ALL)).explain(VIEW)
    assert [(term.text, term.is_true, bool(term.error)) for term in terms] == [
        ('device.driver == "gpu.nvidia.com"', True, False),
        ('device.attributes["gpu.nvidia.com"].index == 4', False, False),
        ("1 / 0 == 1", False, True),
    ]


def test_re2_is_loaded_by_the_first_pattern_only() -> None:
    code = (
        "import sys; from driver.cel import *; compile_selector('true'); assert 're2' not in sys.modules;"
        "compile_selector('\"a\".matches(\"b\")'); assert 're2' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_kubelet_plugin_loads_neither_the_engine_nor_re2() -> None:
    code = "import sys, driver.cli.kubelet_plugin, driver.plugin.instance; assert not {'re2', 'driver.cel'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
