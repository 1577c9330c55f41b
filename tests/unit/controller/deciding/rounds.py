"""Rounds of a waiting line in a world, and what people see of them."""

from __future__ import annotations

from collections.abc import Mapping

from driver.controller.books.demands import Demand
from driver.controller.deciding.decision import Place
from driver.controller.deciding.waiting_line import WaitingLine
from driver.controller.objects.model import Pod
from tests.unit.controller.world import NOW_S, World


class Taught:
    """Advice as a test gives it, by pod name."""

    def __init__(self) -> None:
        self.avoid: dict[str, dict[str, str]] = {}
        self.resting: set[str] = set()

    def avoided(self, demand: Demand) -> Mapping[str, str]:
        return self.avoid.get(demand.pods[0].metadata.name, {})

    def is_resting(self, demand: Demand) -> bool:
        return demand.pods[0].metadata.name in self.resting


def decide(made: World, line: WaitingLine, *, advice: Taught | None = None, now_s: float = NOW_S) -> list[str]:
    """One round: ``p@a`` for what is placed, ``p: why`` for what is left alone."""
    told = []
    for decision in line.decide_all(now_s, advice or Taught()):
        pod = decision.demand.pods[0].metadata.name
        if isinstance(decision, Place):
            made.reserve(decision)
            told.append(f"{pod}@{decision.node}")
        else:
            told.append(f"{pod}: {decision.reason}")
    return told


def waiting(line: WaitingLine) -> list[str]:
    return [demand.pods[0].metadata.name for demand in line.waiting]


def demand(made: World, pod: str) -> Demand:
    found = made.cluster.demand_of(made.get(Pod, pod).metadata.uid)
    assert found is not None
    return found
