"""A fleet of which each side has some, and requests for parts of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driver.api.fence import DRAINING, SCHEDULER
from tests.unit.controller.world import CLASSES, DRIVER, World, gpus, world


def mixed() -> World:
    """Node a is the controller's (H100), b kube-scheduler's (A100), c between the two (L40S)."""
    made = world()
    made.classes({**CLASSES, "careless": {"selectors": [{"cel": {"expression": "device.attributes['nic.example.com'].up"}}]}})
    made.node("a", gpus(4))
    made.node("b", gpus(4, "A100", SCHEDULER))
    made.node("c", gpus(4, "L40S", DRAINING))
    return made


def product(name: str) -> dict[str, Any]:
    return {"cel": {"expression": f"device.attributes['{DRIVER}'].productName == '{name}'"}}


def first_available(*alternatives: Mapping[str, Any], name: str = "gpus") -> dict[str, Any]:
    return {"name": name, "firstAvailable": [{"name": f"way-{number}", **each} for number, each in enumerate(alternatives)]}
