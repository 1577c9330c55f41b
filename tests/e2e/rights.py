"""What each account of the driver may do at the API server, and the line of code that needs it.

One table for the chart's rules, for SubjectAccessReviews, and for what was really asked, as the API server's audit log has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.identity import CONTROLLER, PLUGIN, SYSTEM_NAMESPACE

LEASE = CONTROLLER
USER_AGENT = "gpu-dra"
"""How the driver calls itself; a scenario that tries something with the driver's token says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """``verb`` on ``resource``, and where the code is that needs it: a file below the repository, and a text in it."""

    resource: str
    """As in RBAC, with the group before it: ``resource.k8s.io/resourceclaims/status``; core resources have none."""
    verb: str
    file: str
    text: str
    namespace: str = ""
    """Empty: in all of them."""
    name: str = ""
    """Empty: all of them."""
    is_seldom: bool = False
    """It takes a fault to see it asked: a run of one scenario may not."""
    is_implied: bool = False
    """The API server asks for it besides the request's own right; the audit log has it nowhere."""

    @property
    def key(self) -> tuple[str, str]:
        """As ``read_requests`` has it."""
        return self.resource, self.verb


def _followed(resource: str, file: str, text: str) -> tuple[Right, ...]:
    return tuple(Right(resource=resource, verb=verb, file=file, text=text) for verb in ("list", "watch"))


def _events() -> tuple[Right, ...]:
    def right(verb: str, *, is_seldom: bool) -> Right:
        return Right(
            resource="events.k8s.io/events",
            verb=verb,
            file="driver/kube/events.py",
            text=f"self._client.{verb}(EVENTS",
            is_seldom=is_seldom,
        )

    return right("create", is_seldom=False), right("patch", is_seldom=True)


_CLAIMS = "resource.k8s.io/resourceclaims"
_SLICES = "resource.k8s.io/resourceslices"
_LEASES = "coordination.k8s.io/leases"
_INTAKE = "driver/controller/intake.py"
_SLICE_WRITER = "driver/resourceslice/slice_writer.py"
_CLAIM_HEALTH = "driver/node/health/claim_status_api.py"
_CLAIM_API = "driver/controller/writing/claim_api.py"
_LEASE = "driver/controller/election/lease_api.py"
_BINDING = f"{_CLAIMS}/binding"

RIGHTS: Mapping[str, tuple[Right, ...]] = {
    PLUGIN: (
        Right(resource=_CLAIMS, verb="get", file="driver/node/claim_reader.py", text="self._client.get(RESOURCE_CLAIMS"),
        Right(resource=_CLAIMS, verb="list", file="driver/node/holders.py", text="list_all(RESOURCE_CLAIMS)", is_seldom=True),
        Right(resource=f"{_CLAIMS}/status", verb="patch", file=_CLAIM_HEALTH, text="apply_status(", is_seldom=True),
        Right(
            resource=f"{_CLAIMS}/driver",
            verb="associated-node:patch",
            file=_CLAIM_HEALTH,
            text="apply_status(",
            name="gpu.nvidia.com",
            is_implied=True,
        ),
        *_followed(_SLICES, "driver/resourceslice/publish.py", "Watcher(client, RESOURCE_SLICES"),
        Right(resource=_SLICES, verb="create", file=_SLICE_WRITER, text="self._client.create(RESOURCE_SLICES"),
        Right(resource=_SLICES, verb="update", file=_SLICE_WRITER, text="self._client.replace(RESOURCE_SLICES"),
        Right(resource=_SLICES, verb="delete", file=_SLICE_WRITER, text="self._client.delete(RESOURCE_SLICES", is_seldom=True),
        Right(resource=_SLICES, verb="get", file=_SLICE_WRITER, text="self._client.get(RESOURCE_SLICES", is_seldom=True),
        Right(resource="nodes", verb="get", file=_SLICE_WRITER, text="self._client.get(NODES"),
        *_followed("nodes", "driver/node/node_watch.py", "Watcher(client, NODES"),
        Right(
            resource=_LEASES,
            verb="get",
            file="driver/node/lease_watch.py",
            text="self._client.get(LEASES",
            namespace=SYSTEM_NAMESPACE,
            name=LEASE,
        ),
        *_events(),
    ),
    CONTROLLER: (
        *_followed(_SLICES, _INTAKE, "Source.SLICES: RESOURCE_SLICES"),
        *_followed("resource.k8s.io/deviceclasses", _INTAKE, "Source.CLASSES: CLASSES"),
        *_followed("resource.k8s.io/devicetaintrules", _INTAKE, "Source.RULES: TAINT_RULES"),
        *_followed("pods", _INTAKE, "Source.PODS: PODS"),
        *_followed("persistentvolumes", _INTAKE, "Source.VOLUMES: VOLUMES"),
        *_followed("persistentvolumeclaims", _INTAKE, "Source.VOLUME_CLAIMS: VOLUME_CLAIMS"),
        *_followed("nodes", _INTAKE, "Source.NODES: NODES"),
        *_followed(_CLAIMS, _INTAKE, "Source.CLAIMS: CLAIMS"),
        Right(resource="pods", verb="get", file=_CLAIM_API, text="self._client.get(PODS", is_seldom=True),
        Right(resource="nodes", verb="patch", file="driver/controller/writing/fence.py", text="client.patch(NODES"),
        Right(resource=_CLAIMS, verb="get", file=_CLAIM_API, text="self._client.get(CLAIMS", is_seldom=True),
        Right(resource=_CLAIMS, verb="patch", file=_CLAIM_API, text="self._client.patch(CLAIMS, claim.metadata, body)"),
        Right(resource=_CLAIMS, verb="update", file=_CLAIM_API, text="self._client.edit_metadata(", is_seldom=True),
        Right(resource=f"{_CLAIMS}/status", verb="update", file=_CLAIM_API, text="self._client.replace_status(CLAIMS"),
        Right(resource=f"{_CLAIMS}/status", verb="patch", file=_CLAIM_API, text='subresource="status"', is_seldom=True),
        Right(resource=_BINDING, verb="update", file=_CLAIM_API, text="self._client.replace_status(CLAIMS", is_implied=True),
        Right(resource=_BINDING, verb="patch", file=_CLAIM_API, text='subresource="status"', is_implied=True),
        Right(resource=_LEASES, verb="create", file=_LEASE, text="self._client.create(LEASES", namespace=SYSTEM_NAMESPACE),
        Right(
            resource=_LEASES, verb="get", file=_LEASE, text="self._client.get(LEASES", namespace=SYSTEM_NAMESPACE, name=LEASE
        ),
        Right(
            resource=_LEASES,
            verb="update",
            file=_LEASE,
            text="self._client.replace(LEASES",
            namespace=SYSTEM_NAMESPACE,
            name=LEASE,
        ),
        *_events(),
    ),
}


def allows(account: str, *, resource: str, verb: str, namespace: str, name: str = "") -> bool:
    """Whether the table has it. ``namespace`` and ``name`` are empty for all of them at once."""
    return any(
        right.key == (resource, verb) and right.namespace in {"", namespace} and right.name in {"", name}
        for right in RIGHTS[account]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request of the driver's, from the audit log."""

    account: str
    resource: str
    verb: str
    namespace: str
    name: str
    status: int


def read_requests(log: Path) -> Iterator[Seen]:
    """What the driver's two halves have asked for, of objects: no ``/version``, nothing that people ask by its commands."""
    with log.open() as lines:
        for line in lines:
            event = json.loads(line)
            subject = event.get("objectRef")
            account = event["user"]["username"].rpartition(":")[2]
            if subject is None or account not in RIGHTS or event.get("userAgent") != USER_AGENT:
                continue
            parts = (subject.get("apiGroup", ""), subject["resource"], subject.get("subresource", ""))
            yield Seen(
                account=account,
                resource="/".join(part for part in parts if part),
                verb=event["verb"],
                namespace=subject.get("namespace", ""),
                name=subject.get("name", ""),
                status=event.get("responseStatus", {}).get("code", 0),
            )
