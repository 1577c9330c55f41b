"""Which devices somebody holds: needed only for those that the node has no longer (R23)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from driver import log
from driver.api.resource_v1 import ResourceClaim
from driver.errors import ApiError, StateUnwritable
from driver.kube.client import KubeClient
from driver.kube.resources import RESOURCE_CLAIMS
from driver.names import DeviceName
from driver.resourceslice.diff import PoolIdentity

_LOG = log.logger(__name__)


def find_allocated_devices(claims: Iterable[ResourceClaim], pool: PoolIdentity) -> frozenset[DeviceName]:
    """The devices of ``pool`` that these claims were given."""
    allocations = (claim.status.allocation for claim in claims)
    results = (result for allocation in allocations if allocation is not None for result in allocation.devices.results)
    return frozenset(DeviceName(each.device) for each in results if each.driver == pool.driver and each.pool == pool.pool)


class Holders:
    """Asks the records, then the API server: one list of claims, made only while a device is missing."""

    def __init__(self, client: KubeClient, pool: PoolIdentity, read_recorded: Callable[[], frozenset[DeviceName]]) -> None:
        self._client = client
        self._pool = pool
        self._read_recorded = read_recorded

    def read(self) -> frozenset[DeviceName] | None:
        """Everything that is held; None while that cannot be known, and then nothing may be withdrawn."""
        try:
            recorded = self._read_recorded()
            claims = self._client.list_all(RESOURCE_CLAIMS).items
        except (ApiError, StateUnwritable) as err:
            log.event(_LOG, log.WARNING, "cannot tell who holds the devices that are missing; they stay", error=err)
            return None
        return recorded | find_allocated_devices(claims, self._pool)
