"""Whether this cluster's API server keeps shared counters: Kubernetes 1.36 or later, with partitionable devices switched on.

An older server takes devices that draw on counters and stores them without: a GPU and all its parts would be published as free
side by side. So it is asked before any is published, by a slice of counters that is only tried (dry run).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from driver.api.resource_v1 import Capacity, Counter, CounterSet, Device, ResourceSlice
from driver.errors import Invalid
from driver.kube.client import KubeClient
from driver.kube.resources import RESOURCE_SLICES, Selection
from driver.node.server_trial import Remembered, build_trial
from driver.resourceslice.diff import PoolIdentity

FIRST_MINOR = 36
REFUSED_AGAIN_S = 600.0
"""A refusal is asked about again after this: clusters are upgraded."""


class CounterSupport:
    """Asks once, and after a refusal now and then."""

    def __init__(self, client: KubeClient, pool: PoolIdentity, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._pool = pool
        self._keeps = Remembered(self._ask, lambda keeps: not keeps, again_s=REFUSED_AGAIN_S, clock=clock)

    def read(self) -> bool:
        """Whether it does.

        Raises:
            ApiError: it cannot be known now.
        """
        return self._keeps.read()

    def recall(self) -> bool:
        """What was last answered; True before the first answer: what is prepared for a claim does not depend on it."""
        return self._keeps.last is not False

    def note_lost(self) -> None:
        """The server dropped counters, though it said that it keeps them: another server of an upgrade, for one."""
        self._keeps.put(False)

    def _ask(self) -> bool:
        if self._client.server_version().numbers < (1, FIRST_MINOR):
            return False
        fields = f"spec.driver={self._pool.driver},spec.nodeName={self._pool.node_name}"
        own = self._client.list_all(RESOURCE_SLICES, Selection(field_selector=fields)).items
        if any(map(self._is_kept, own)):
            return True  # it has kept them before: a restart writes nothing
        try:
            stored = self._client.create(RESOURCE_SLICES, self._build_trial(self._pool), is_dry_run=True)
        except Invalid:  # without the gate the slice is empty, which a later server may refuse
            return False
        return self._is_kept(stored)

    def _build_trial(self, pool: PoolIdentity) -> ResourceSlice:
        return build_trial(pool, counters=(CounterSet(name="trial", counters={"trial": Counter(value="1")}),))

    def _is_kept(self, stored: ResourceSlice) -> bool:
        """Whether a slice that the server has shows that it keeps them."""
        return bool(stored.spec.shared_counters)


class ShareSupport(CounterSupport):
    """Likewise whether the server keeps devices of which several claims have a part (consumable capacity)."""

    def _build_trial(self, pool: PoolIdentity) -> ResourceSlice:
        memory = Capacity(value="2Mi", request_policy={"default": "1Mi", "validRange": {"min": "1Mi"}})
        return build_trial(pool, devices=(Device(name="trial", capacity={"memory": memory}, allow_multiple_allocations=True),))

    def _is_kept(self, stored: ResourceSlice) -> bool:
        return any(device.allow_multiple_allocations for device in stored.spec.devices)
