"""Which taints of health this cluster's API server keeps: whether any, how many, and whether the effect ``None`` is among them.

It is asked by slices that are only tried (dry run).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from driver.api.resource_v1 import Device, Taint
from driver.errors import Invalid
from driver.health.model import Kind
from driver.kube.client import KubeClient
from driver.kube.resources import RESOURCE_SLICES
from driver.node.server_trial import Remembered, build_trial
from driver.resourceslice.diff import PoolIdentity
from driver.resourceslice.health_taints import KEY_PREFIX, MAX_TAINTS, MAX_TAINTS_BEFORE, TaintRules

FIRST_MINOR_WITH_MORE = 35
REFUSED_AGAIN_S = 600.0

_BLOCKS = Taint(key=f"{KEY_PREFIX}{Kind.XID.value}", effect="NoSchedule")
_WARNS = Taint(key=f"{KEY_PREFIX}{Kind.UNMONITORED.value}", effect="None")


class TaintSupport:
    """Asks once, and after a refusal now and then. It is only called where there is something to be tainted."""

    def __init__(
        self, client: KubeClient, pool: PoolIdentity, evicts: frozenset[Kind], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._pool = pool
        self._evicts = evicts
        self._rules = Remembered(self._ask, lambda rules: not rules.keeps_warnings, again_s=REFUSED_AGAIN_S, clock=clock)

    def read(self) -> TaintRules:
        """The rules.

        Raises:
            ApiError: they cannot be known now.
        """
        return self._rules.read()

    def _ask(self) -> TaintRules:
        is_older = self._client.server_version().numbers < (1, FIRST_MINOR_WITH_MORE)
        keeps_warnings = not is_older and self._keeps(_WARNS)
        return TaintRules(
            evicts=self._evicts,
            keeps_taints=keeps_warnings or self._keeps(_BLOCKS),
            keeps_warnings=keeps_warnings,
            limit=MAX_TAINTS_BEFORE if is_older else MAX_TAINTS,
        )

    def _keeps(self, taint: Taint) -> bool:
        device = Device(name="trial", taints=(taint,))
        try:
            stored = self._client.create(RESOURCE_SLICES, build_trial(self._pool, devices=(device,)), is_dry_run=True)
        except Invalid:
            return False
        return all(each.taints for each in stored.spec.devices)
