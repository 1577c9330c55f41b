"""The Lease that one controller holds, as ``coordination.k8s.io/v1`` has it, and what may be written into it. Pure.

Times in a Lease are by somebody's wall clock and are for people. Nothing here or in ``elector`` decides by them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

import msgspec

from driver.api.meta_v1 import ObjectMeta, encode_micro_time
from driver.errors import SettingsInvalid
from driver.kube.resources import Resource

MAX_JITTER = 1.2
"""How much longer a contender may wait than ``retry_s``, as a factor that is added to 1; client-go's figure."""


class LeaseSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Who holds the lease, and for how long after each change of the record. No holder: released."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    lease_transitions: int = 0


class Lease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A Lease."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


_MOST_TRANSITIONS = 2**31 - 1
"""The server takes no more, and whoever wrote this must not keep everybody from leading."""

LEASES = Resource(group_version="coordination.k8s.io/v1", plural="leases", type_=Lease)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionSettings:
    """Which lease, who asks, and the four times; the first three are client-go's defaults.

    ``request_timeout_s`` is the longest that a write of the leader's may take from the question ``may_write`` to its effect:
    connecting and waiting for the answer together. The client that writes claims must be built with it.
    """

    namespace: str
    name: str
    identity: str
    lease_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 2.0
    request_timeout_s: float = 5.0

    def __post_init__(self) -> None:
        """Refuse times that cannot work together."""
        faults = []
        if not self.retry_s > 0 or not self.request_timeout_s > 0:
            faults.append("retry and request time-out must be more than 0 s")
        if self.renew_s <= self.retry_s * MAX_JITTER:
            faults.append(f"renew ({self.renew_s} s) must be more than {MAX_JITTER} times retry ({self.retry_s} s)")
        if self.lease_s <= self.renew_s:
            faults.append(f"lease ({self.lease_s} s) must be longer than renew ({self.renew_s} s)")
        if self.lease_s <= self.request_timeout_s + self.retry_s:
            faults.append(
                f"lease ({self.lease_s} s) must be longer than request time-out ({self.request_timeout_s} s) and retry"
                f" ({self.retry_s} s) together, or nothing may ever be written"
            )
        if faults:
            raise SettingsInvalid("leader election: " + "; ".join(faults))

    @property
    def takeover_wait_s(self) -> float:
        """How long a new leader writes nothing after a holder that did not release (R28)."""
        return self.lease_s + self.request_timeout_s


def build_identity(pod_name: str, pod_uid: str, chance: str) -> str:
    """Who asks for the lease: one pod's containers, one after the other, share an identity; processes without a pod never do.

    A container that was killed so finds its own lease and need not wait until it ends. A pod that is made again under its name
    has another uid. ``chance`` is another text for each process.
    """
    return f"{pod_name}_{pod_uid or chance}"


def build_first_lease(settings: ElectionSettings, now: datetime) -> Lease:
    """The lease where there is none."""
    metadata = ObjectMeta(name=settings.name, namespace=settings.namespace)
    return build_taken(Lease(metadata=metadata, spec=LeaseSpec(lease_transitions=-1)), settings, now)


def build_taken(lease: Lease, settings: ElectionSettings, now: datetime) -> Lease:
    """The lease in our hands."""
    spec = LeaseSpec(
        holder_identity=settings.identity,
        lease_duration_seconds=math.ceil(settings.lease_s),
        acquire_time=encode_micro_time(now),
        renew_time=encode_micro_time(now),
        lease_transitions=min(lease.spec.lease_transitions + 1, _MOST_TRANSITIONS),
    )
    return msgspec.structs.replace(lease, spec=spec)


def build_renewed(lease: Lease, now: datetime) -> Lease:
    """Our lease, renewed."""
    return msgspec.structs.replace(lease, spec=msgspec.structs.replace(lease.spec, renew_time=encode_micro_time(now)))


def build_released(lease: Lease, now: datetime) -> Lease:
    """Our lease without a holder: whoever asks next has it at once. One second, since the API takes no zero."""
    spec = msgspec.structs.replace(lease.spec, holder_identity="", lease_duration_seconds=1, renew_time=encode_micro_time(now))
    return msgspec.structs.replace(lease, spec=spec)
