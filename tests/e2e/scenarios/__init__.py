"""The scenarios, a module a subject; ``ALL`` is the order in which they run."""

from __future__ import annotations

from tests.e2e.runner import Scenario
from tests.e2e.scenarios import (
    absence,
    contracts,
    controller_failures,
    controller_faults,
    controller_islands,
    controller_pods,
    controller_pressure,
    controller_takeback,
    crashes,
    deployed,
    examples,
    fence,
    fence_admission,
    guides,
    health,
    health_handover,
    health_rights,
    kubectl_gpu,
    load,
    machines,
    metrics,
    mig,
    mig_boards,
    mig_churn,
    mixed_calls,
    node_life,
    onlookers,
    placement,
    rbac,
    restarts,
    sharing,
    sharing_together,
    surroundings,
)

_NODE_HALF = (
    placement,
    examples,
    machines,
    mixed_calls,
    surroundings,
    restarts,
    node_life,
    absence,
    health,
    health_handover,
    health_rights,
    crashes,
    contracts,
    mig,
    mig_boards,
    mig_churn,
    sharing,
    sharing_together,
    metrics,
)
_CONTROLLER_HALF = (
    controller_pods,
    controller_islands,
    controller_takeback,
    controller_faults,
    controller_failures,
    controller_pressure,
    onlookers,
    kubectl_gpu,
)
_FENCE = (fence_admission, fence)
_MODULES = (*_NODE_HALF, *_FENCE, *_CONTROLLER_HALF, load, deployed, rbac, guides)
ALL: tuple[Scenario, ...] = tuple(scenario for module in _MODULES for scenario in module.SUITE.scenarios)
