"""Whether this cluster's API server keeps a fence: Kubernetes 1.36 or later, with device taints switched on.

An older server takes a slice with taints and stores it without them: fenced devices would be published as free. So it is asked
before anything is published, by a slice that is only tried (dry run).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from driver.api.fence import ALLOCATOR_KEY, CONTROLLER, FENCE_EFFECT
from driver.api.resource_v1 import Device, Taint
from driver.kube.client import KubeClient
from driver.kube.resources import RESOURCE_SLICES
from driver.node.fence import REFUSED_AGAIN_S
from driver.node.server_trial import Remembered, build_trial
from driver.resourceslice.diff import PoolIdentity

FIRST_MINOR = 36
_LOST = (
    "The API server did not keep the fence's taint when the devices were published with it, and is asked again in some minutes"
)


class FenceSupport:
    """Asks once; a refusal is asked about again after some minutes, since clusters are upgraded."""

    def __init__(self, client: KubeClient, pool: PoolIdentity, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._pool = pool
        self._refusal = Remembered(self._ask, bool, again_s=REFUSED_AGAIN_S, clock=clock)

    def find_refusal(self) -> str:
        """Why no fence can be put up here; empty where one can.

        Raises:
            ApiError: it cannot be known now.
        """
        return self._refusal.read()

    def note_lost(self) -> None:
        """The server took the fence down, though it said that it would keep it: another server of an upgrade, for one."""
        self._refusal.put(_LOST)

    def _ask(self) -> str:
        version = self._client.server_version()
        where = f"Kubernetes {version.git_version or '.'.join(map(str, version.numbers))}"
        if version.numbers < (1, FIRST_MINOR):
            return (
                f"This node is to be the controller's, but {where} keeps no device taints, so kube-scheduler would allocate its"
                f" devices as well. They stay kube-scheduler's; the controller needs Kubernetes 1.{FIRST_MINOR} or later"
            )
        fenced = Device(name="trial", taints=(Taint(key=ALLOCATOR_KEY, value=CONTROLLER, effect=FENCE_EFFECT),))
        stored = self._client.create(RESOURCE_SLICES, build_trial(self._pool, devices=(fenced,)), is_dry_run=True)
        if all(device.taints for device in stored.spec.devices):
            return ""
        return (
            f"This node is to be the controller's, but the API server ({where}) drops device taints: its feature gate"
            " DRADeviceTaints is off. The devices stay kube-scheduler's"
        )
