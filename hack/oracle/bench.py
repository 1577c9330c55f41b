"""Evaluations a second, ours and Kubernetes', of the same selectors on the same device in one run."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from driver.cel import DeviceView, Features, Selector, compile_selector
from hack.oracle.go import run
from hack.oracle.ours import view_of

SELECTORS = {
    "driver": 'device.driver == "gpu.example.com"',
    "compareTo": 'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
    "semver": 'device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("550.0.0"))',
    "matches": 'device.attributes["gpu.example.com"].productName.matches("^H100")',
    "realistic": (
        'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].productName.startsWith("H100") && '
        'device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("550.0.0")) && '
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0 && '
        '!device.attributes["gpu.example.com"].mig'
    ),
    "optional": 'device.attributes["gpu.example.com"].?nvlink.orValue(false)',
    "bind": 'cel.bind(a, device.attributes["gpu.example.com"], a.nvlink && !a.mig)',
    "exists": '["A100", "H100"].exists(x, device.attributes["gpu.example.com"].productName.startsWith(x))',
    "in": 'device.attributes["gpu.example.com"].brand in ["Nvidia Tesla", "Nvidia"]',
}
_ROUNDS = 5
"""The best of so many is shown: the machine does other things too."""
_EVALUATIONS = 20_000


def _measure(selector: Selector, view: DeviceView) -> float:
    start = time.perf_counter()
    for _ in range(_EVALUATIONS):
        selector.matches(view)
    return _EVALUATIONS / (time.perf_counter() - start)


def bench(device: Mapping[str, Any], driver: str) -> int:
    """Print a line a selector."""
    features = Features(consumable_capacity=True)
    questions = [
        {"id": name, "expr": expr, "driver": driver, "device": device, "cons": True} for name, expr in SELECTORS.items()
    ]
    theirs = {found["id"]: found["evaluations_per_s"] for found in map(json.loads, run(questions, "-bench", "20000"))}
    view = view_of(device, driver)
    print(f"{'selector':<10} {'ours/s':>12} {'Go/s':>12} {'compile/s':>10}")
    for name, expr in SELECTORS.items():
        start = time.perf_counter()
        for _ in range(20):
            selector = compile_selector(expr, features=features)
        compiles = 20 / (time.perf_counter() - start)
        ours = max(_measure(selector, view) for _ in range(_ROUNDS))
        print(f"{name:<10} {ours:>12,.0f} {theirs[name]:>12,.0f} {compiles:>10,.0f}")
    return 0
