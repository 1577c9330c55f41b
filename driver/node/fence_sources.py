"""What the fence is decided from: the machine's uptime, and the devices that the API server has."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from driver.api.resource_v1 import Device
from driver.errors import DeviceNotReady
from driver.host.epoch import read_epoch
from driver.host.roots import Roots
from driver.kube.client import KubeClient
from driver.kube.resources import RESOURCE_SLICES, Selection
from driver.node.fence import Moment
from driver.resourceslice.diff import PoolIdentity


def read_uptime_s() -> float:
    """Seconds since the machine was booted: they go on while it sleeps, and setting the clock does not move them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Uptime:
    """Says now. Without a boot id, moments of another process are of another boot: they count for nothing."""

    def __init__(self, roots: Roots, clock: Callable[[], float] = read_uptime_s) -> None:
        self._roots = roots
        self._clock = clock
        self._own_id = f"unknown-{secrets.token_hex(8)}"

    def read(self) -> Moment:
        """This moment."""
        try:
            boot_id = read_epoch(self._roots, "").boot_id
        except DeviceNotReady:
            boot_id = self._own_id
        return Moment(boot_id=boot_id, uptime_s=self._clock())


class PublishedDevices:
    """The devices in the pool's slices."""

    def __init__(self, client: KubeClient, pool: PoolIdentity) -> None:
        self._client = client
        self._pool = pool

    def read(self) -> tuple[Device, ...]:
        """All of them, asked for anew; of an older generation, too. Raises ``ApiError``."""
        fields = f"spec.driver={self._pool.driver},spec.nodeName={self._pool.node_name}"
        slices = self._client.list_all(RESOURCE_SLICES, Selection(field_selector=fields)).items
        return tuple(device for each in slices for device in each.spec.devices)
