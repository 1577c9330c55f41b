"""Our own answer to a case, in the form that the oracle's is kept in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driver.cel import DeviceView, Features, SelectorError, build_view_of_values, compile_selector
from hack.oracle.cases import Answer, Case


def view_of(device: Mapping[str, Any], driver: str) -> DeviceView:
    """A device of devices.json as selectors see it."""
    capacity = {name: value["value"] for name, value in device.get("capacity", {}).items()}
    allows_multiple = bool(device.get("allowMultipleAllocations"))
    return build_view_of_values(driver, device.get("attributes", {}), capacity, allows_multiple=allows_multiple)


def answer_case(case: Case, devices: Mapping[str, Any], driver: str) -> Answer:
    """Compile and evaluate, both ways: the quick one must say the same as the one that counts."""
    try:
        selector = compile_selector(
            case.expr, features=Features(list_attributes=case.lists, consumable_capacity=case.consumable)
        )
    except SelectorError:
        return "compile_error", None, None, None
    view = view_of(devices[case.device], driver)
    counted = selector.answer(view)
    word = "evaluation_error" if counted.error is not None else str(counted.is_match).lower()
    quick = quick_answer(selector, view)
    if quick != word:
        word = f"{word} counted, {quick} quickly"
    return word, selector.result_type, selector.max_cost, None if case.cost is None else counted.cost


def quick_answer(selector: Any, view: DeviceView) -> str:
    """What ``matches`` says."""
    from driver.cel import EvaluationError  # noqa: PLC0415 - beside its only use

    try:
        return str(selector.matches(view)).lower()
    except EvaluationError:
        return "evaluation_error"
