"""Whether there is a controller: its lease, looked at while a node waits for the controller's word.

Nobody's clock is compared with ours: what counts is how long the lease has not changed while we looked, by our own uptime. A
leader that lives renews it every few seconds, and writes nothing once it cannot.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from driver.api.meta_v1 import ObjectMeta
from driver.errors import NotFound
from driver.kube.client import KubeClient
from driver.kube.resources import Resource
from driver.node.fence import Moment


class _LeaseSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    lease_duration_seconds: int = 0


class _Lease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    metadata: ObjectMeta
    spec: _LeaseSpec = _LeaseSpec()


LEASES = Resource(group_version="coordination.k8s.io/v1", plural="leases", type_=_Lease)
ABSENT_LEASE_S = 15.0
"""How long a controller that just begins may take until its lease is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSeen:
    """A lease as it has been since ``since``. ``version`` is empty where there is none."""

    version: str
    lease_s: float
    since: Moment


def note_lease(before: LeaseSeen | None, version: str, lease_s: float, now: Moment) -> LeaseSeen:
    """What is known after another look."""
    is_same = before is not None and before.version == version and before.since.boot_id == now.boot_id
    if before is not None and is_same and before.since.uptime_s <= now.uptime_s:
        return before
    return LeaseSeen(version=version, lease_s=lease_s, since=now)


def is_controller_gone(seen: LeaseSeen, now: Moment, drain_s: float) -> bool:
    """Whether the lease was over for the draining time while we looked."""
    return now.uptime_s - seen.since.uptime_s >= seen.lease_s + drain_s


class LeaseWatch:
    """Looks at one lease, when asked."""

    def __init__(self, client: KubeClient, lease: str) -> None:
        """``lease`` is ``namespace/name``."""
        self._client = client
        self._namespace, _, self._name = lease.partition("/")
        self._seen: LeaseSeen | None = None

    def forget(self) -> None:
        """Nobody waits now: a later wait begins to look anew."""
        self._seen = None

    def look(self, now: Moment, drain_s: float) -> bool:
        """Whether no controller has been there for ``drain_s``.

        Raises:
            ApiError: the lease cannot be read. What was seen before no longer counts.
        """
        before, self._seen = self._seen, None
        try:
            lease = self._client.get(LEASES, self._name, namespace=self._namespace)
            version, lease_s = lease.metadata.resource_version, float(lease.spec.lease_duration_seconds)
        except NotFound:
            version, lease_s = "", ABSENT_LEASE_S
        self._seen = note_lease(before, version, lease_s, now)
        return is_controller_gone(self._seen, now, drain_s)
