"""The scenarios, a module a subject; ``ALL`` is the order in which they run."""

from __future__ import annotations

from tests.e2e.runner import Scenario
from tests.e2e.scenarios import examples, placement, restarts

ALL: tuple[Scenario, ...] = tuple(scenario for module in (placement, examples, restarts) for scenario in module.SUITE.scenarios)
