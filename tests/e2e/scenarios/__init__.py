"""The scenarios, a module a subject; ``ALL`` is the order in which they run."""

from __future__ import annotations

from tests.e2e.runner import Scenario
from tests.e2e.scenarios import contracts, crashes, examples, machines, mixed_calls, placement, restarts, surroundings

_MODULES = (placement, examples, machines, mixed_calls, surroundings, restarts, crashes, contracts)
ALL: tuple[Scenario, ...] = tuple(scenario for module in _MODULES for scenario in module.SUITE.scenarios)
