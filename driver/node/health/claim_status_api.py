"""The status of claims at the API server, and the people who use them."""

from __future__ import annotations

from collections.abc import Sequence

from driver.api.claim_status_v1 import AppliedClaim, AppliedStatus, DeviceStatus, ReportedClaim
from driver.api.meta_v1 import ObjectMeta
from driver.claims.model import ClaimRef
from driver.kube.client import KubeClient
from driver.kube.events import EventRecorder, ObjectReference
from driver.kube.resources import RESOURCE_CLAIMS, Resource
from driver.node.health.claim_conditions import Change

REPORTED_CLAIMS = Resource(group_version=RESOURCE_CLAIMS.group_version, plural=RESOURCE_CLAIMS.plural, type_=ReportedClaim)
MOST_PODS = 4
"""Of one claim, that are told by events; a shared claim may have 256. The claim's condition is for all."""


class ApiClaimStatus:
    """``claim_writer.ClaimStatusApi`` over the API server."""

    def __init__(self, client: KubeClient, manager: str) -> None:
        """``manager`` is whose fields they are; one name for ever, over restarts and versions."""
        self._client = client
        self._manager = manager

    def read(self, ref: ClaimRef) -> ReportedClaim:
        """The claim of this namespace and name."""
        return self._client.get(REPORTED_CLAIMS, ref.name, namespace=ref.namespace)

    def apply(self, claim: ReportedClaim, devices: Sequence[DeviceStatus]) -> ReportedClaim:
        """Say this, and nothing else, of the claim's devices."""
        seen = claim.metadata
        metadata = ObjectMeta(name=seen.name, namespace=seen.namespace, uid=seen.uid, resource_version=seen.resource_version)
        body = AppliedClaim(metadata=metadata, status=AppliedStatus(devices=tuple(devices)))
        return self._client.apply_status(REPORTED_CLAIMS, seen, body, manager=self._manager)


class ClaimUsers:
    """Events on the pods that use a claim: there it is looked first. One that no pod uses gets them itself."""

    def __init__(self, recorder: EventRecorder, *, node_name: str) -> None:
        self._recorder = recorder
        self._node_name = node_name

    def tell(self, claim: ReportedClaim, changes: Sequence[Change]) -> None:
        """What became of the claim's devices. Returns at once."""
        for change in changes:
            verdict = change.verdict
            where = f"{change.device} of claim {claim.metadata.name} on {self._node_name}"
            if verdict is None:
                reason, note = "GpuRecovered", f"{where} is well again"
            else:
                note = f"{where}: {verdict.message}. The pod keeps it. {verdict.advice}".strip()
                reason = "GpuUnhealthy"
            for about in _list_users(claim):
                self._recorder.record(about, reason, note, action="Observe", is_warning=verdict is not None)


def _list_users(claim: ReportedClaim) -> list[ObjectReference]:
    pods = [
        ObjectReference(api_version="v1", kind="Pod", name=each.name, namespace=claim.metadata.namespace, uid=each.uid)
        for each in claim.status.reserved_for
        if each.resource == "pods" and not each.api_group
    ]
    itself = ObjectReference(
        api_version=RESOURCE_CLAIMS.group_version,
        kind="ResourceClaim",
        name=claim.metadata.name,
        namespace=claim.metadata.namespace,
        uid=claim.metadata.uid,
    )
    return pods[:MOST_PODS] or [itself]
