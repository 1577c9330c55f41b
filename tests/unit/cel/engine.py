"""What the tests of the engine ask it with."""

from __future__ import annotations

from driver.cel import DeviceView, EvaluationError, Features, SelectorError, build_view_of_values, compile_selector

DRIVER = "gpu.nvidia.com"
ALL = Features(list_attributes=True, consumable_capacity=True)
VIEW = build_view_of_values(
    DRIVER,
    {
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "index": {"int": 3},
        "mig": {"bool": False},
        "driverVersion": {"version": "560.35.3"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
        "numbers": {"ints": [1, 2]},
    },
    {"memory": "80Gi"},
    allows_multiple=True,
)


def answer(source: str, view: DeviceView = VIEW, features: Features = ALL) -> bool | str:
    """True, False, ``compile: ...`` or ``evaluate: ...``; both plans have to agree."""
    try:
        selector = compile_selector(source, features=features)
    except SelectorError as err:
        return f"compile: {err.faults[0]}"
    counted = selector.answer(view)
    try:
        found = selector.matches(view)
    except EvaluationError as err:
        assert counted.error is not None
        return f"evaluate: {err}"
    assert counted.error is None
    assert counted.is_match == found
    return found


def is_compile_error(source: str) -> bool:
    """Whether the selector does not compile."""
    return str(answer(source)).startswith("compile: ")


def is_evaluation_error(source: str) -> bool:
    """Whether the selector fails on the device."""
    return str(answer(source)).startswith("evaluate: ")
