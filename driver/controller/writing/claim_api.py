"""The few requests that writing to claims takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from driver.controller.objects.model import CLAIMS, PODS, Claim, Pod
from driver.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from driver.kube.client import KubeClient


class ClaimApi(Protocol):
    """What a writer asks of the API server. Every method raises ``ApiError``."""

    def read_claim(self, claim: Claim) -> Claim:
        """The claim of this namespace and name as it is now."""

    def read_pod(self, namespace: str, name: str) -> Pod | None:
        """A pod as it is now."""

    def patch(self, claim: Claim, body: dict[str, Any]) -> Claim:
        """Merge into the main object."""

    def patch_status(self, claim: Claim, body: dict[str, Any]) -> Claim:
        """Merge into the status."""

    def put_status(self, claim: Claim, body: dict[str, Any]) -> Claim:
        """Put the status whole."""


class KubeClaimApi:
    """``ClaimApi`` on a client of the writers' own, whose time-outs are those of the election."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def read_claim(self, claim: Claim) -> Claim:
        """``ClaimApi.read_claim``."""
        return self._client.get(CLAIMS, claim.metadata.name, namespace=claim.metadata.namespace)

    def read_pod(self, namespace: str, name: str) -> Pod | None:
        """``ClaimApi.read_pod``."""
        try:
            return self._client.get(PODS, name, namespace=namespace)
        except NotFound:
            return None

    def patch(self, claim: Claim, body: dict[str, Any]) -> Claim:
        """``ClaimApi.patch``: of annotations and finalizers.

        A claim whose opaque parameters were sent with white space is one that JSON cannot change (``driver.kube.protobuf``).
        """
        try:
            return self._client.patch(CLAIMS, claim.metadata, body)
        except Invalid as err:
            if "field is immutable" not in err.message:
                raise
        metadata = body["metadata"]
        return self._client.edit_metadata(
            CLAIMS, claim.metadata, annotations=metadata.get("annotations", {}), finalizers=metadata["finalizers"]
        )

    def patch_status(self, claim: Claim, body: dict[str, Any]) -> Claim:
        """``ClaimApi.patch_status``."""
        return self._client.patch(CLAIMS, claim.metadata, body, subresource="status")

    def put_status(self, claim: Claim, body: dict[str, Any]) -> Claim:
        """``ClaimApi.put_status``."""
        return self._client.replace_status(CLAIMS, claim.metadata, body)


class WriteMetrics(Protocol):
    """``ControllerMetrics``, as far as it is used here."""

    def note_write(self, write: str, *, took_s: float) -> None:
        """A write succeeded."""

    def note_write_failure(self, why: str) -> None:
        """A write failed."""


class MeasuredClaimApi:
    """``ClaimApi`` that counts the writes and how long they take."""

    def __init__(self, api: ClaimApi, metrics: WriteMetrics, *, timer: Callable[[], float] = time.perf_counter) -> None:
        self._api = api
        self._metrics = metrics
        self._timer = timer

    def read_claim(self, claim: Claim) -> Claim:
        """``ClaimApi.read_claim``."""
        return self._api.read_claim(claim)

    def read_pod(self, namespace: str, name: str) -> Pod | None:
        """``ClaimApi.read_pod``."""
        return self._api.read_pod(namespace, name)

    def patch(self, claim: Claim, body: dict[str, Any]) -> Claim:
        """``ClaimApi.patch``."""
        return self._measure("finalizer", self._api.patch, claim, body)

    def patch_status(self, claim: Claim, body: dict[str, Any]) -> Claim:
        """``ClaimApi.patch_status``."""
        is_take_back = "allocation" in body.get("status", {})
        return self._measure("take_back" if is_take_back else "guard", self._api.patch_status, claim, body)

    def put_status(self, claim: Claim, body: dict[str, Any]) -> Claim:
        """``ClaimApi.put_status``."""
        return self._measure("allocation", self._api.put_status, claim, body)

    def _measure(self, what: str, write: Callable[[Claim, dict[str, Any]], Claim], claim: Claim, body: dict[str, Any]) -> Claim:
        began_s = self._timer()
        try:
            answer = write(claim, body)
        except ApiError as err:
            self._metrics.note_write_failure(_name_failure(err))
            raise
        self._metrics.note_write(what, took_s=self._timer() - began_s)
        return answer


def _name_failure(err: ApiError) -> str:
    if isinstance(err, Conflict):
        return "conflict"
    if isinstance(err, NotFound):
        return "gone"
    return "refused" if isinstance(err, Invalid | Forbidden) else "unreachable"
