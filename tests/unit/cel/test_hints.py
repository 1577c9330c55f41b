"""A selector that does not compile is answered with what was probably meant."""

from __future__ import annotations

import pytest

from driver.cel import SelectorError, compile_selector, find_error_hint

GPU = 'device.attributes["gpu.nvidia.com"]'
MEMORY = 'device.capacity["gpu.nvidia.com"].memory'
WHERE = 'an attribute is device.attributes["DRIVER"].NAME, an amount device.capacity["DRIVER"].NAME'
QUOTES = 'write names of drivers in quotes, as in device.attributes["gpu.nvidia.com"]'
AMOUNTS = 'compare amounts by .isGreaterThan(quantity("40Gi")), .isLessThan or .compareTo'


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ('device.atributes["gpu.nvidia.com"].type == "gpu"', "did you mean device.attributes?"),
        ('attributes["gpu.nvidia.com"].type == "gpu"', "did you mean device.attributes?"),
        ('device.productName == "x"', WHERE),
        ('productName == "x"', WHERE),
        ('type == "gpu"', WHERE),
        ('device.attributes[gpu.nvidia.com].type == "gpu"', QUOTES),
        ("device.driver == gpu.nvidia.com", QUOTES),
        (f"{MEMORY} > 40", AMOUNTS),
        (f'{MEMORY} >= "40Gi"', AMOUNTS),
        (f'{MEMORY}.isGreaterThan("40Gi")', AMOUNTS),
        ('semver("1.2.3") > "1.2.2"', 'compare versions by .isGreaterThan(semver("1.2.3")), .isLessThan or .compareTo'),
        (f'{GPU}.productName.startswith("x")', "did you mean startsWith?"),
        (f'{GPU}.productName.frobnicate("x")', "docs/selectors.md lists the functions"),
        (f'{GPU}.type = "gpu"', "write =="),
        (f'{GPU}.type == "gpu" and true', "write &&"),
        (f'{GPU}.type == "gpu" or true', "write ||"),
        ("true not false", "write !"),
    ],
)
def test_the_first_fault_has_a_hint(selector: str, hint: str) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_selector(selector)
    assert find_error_hint(caught.value) == hint


@pytest.mark.parametrize("selector", ["", "1", "(true", '"a" + 1 == 2'])
def test_what_may_be_meant_by_anything_has_none(selector: str) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_selector(selector)
    assert find_error_hint(caught.value) == ""
