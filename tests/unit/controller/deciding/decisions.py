"""What is decided of a pod in a world, asked in one word."""

from __future__ import annotations

from typing import Any

from driver.controller.deciding.decision import LeaveAlone, Place, Wait
from tests.unit.controller.world import (
    World,
)

SMALL = {"cpu": "8", "memory": "16Gi", "pods": "2"}


def place(made: World, pod: str, **how: Any) -> Place:
    """The place, which there must be."""
    decision = made.decide(pod, **how)
    assert isinstance(decision, Place), decision
    return decision


def wait(made: World, pod: str, **how: Any) -> str:
    """Why it waits, which it must."""
    decision = made.decide(pod, **how)
    assert isinstance(decision, Wait), decision
    return decision.text


def left_alone(made: World, pod: str) -> tuple[str, bool]:
    decision = made.decide(pod)
    assert isinstance(decision, LeaveAlone), decision
    return decision.reason, decision.is_fault


def cpu(amount: str) -> list[dict[str, Any]]:
    return [{"name": "main", "resources": {"requests": {"cpu": amount}}}]
