"""A tenth of the load of ``--soak load``: nothing may grow."""

from __future__ import annotations

from tests.e2e.controller_load import run_controller_load
from tests.e2e.node_load import run_node_load
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage

SUITE = Suite()


@SUITE.add("load: 1,000 prepares and unprepares on 64 GPUs: memory, threads and descriptors are flat")
def run_node(stage: Stage) -> str:
    """Claims of 50 pods, eight callers at once, some calls with several claims."""
    return run_node_load(stage, claims=50, cycles=1000).describe()


@SUITE.add("load: the controller with 200 nodes and pods that come and go: it does not grow", needs_minor=36)
def run_controller(stage: Stage) -> str:
    """For half a minute."""
    return run_controller_load(stage, nodes=200, seconds=30.0, seed=1).describe()
