"""What an API server lets be written to a claim by others than kube-scheduler: the same for the fake and the real one."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from driver.api.meta_v1 import ObjectMeta
from driver.controller.election.lease import LEASES, Lease, LeaseSpec
from driver.controller.objects.model import CLAIMS, Claim, Meta
from driver.controller.objects.ownership import FINALIZER
from driver.errors import Conflict, Invalid, NotFound
from driver.kube.client import KubeClient
from driver.kube.resources import Resource
from tests.contract.kube.conftest import Cluster

Json = dict[str, Any]
NAMESPACE = "default"
PARAMETERS = {"apiVersion": "example.com/v1", "kind": "Any", "nothing": None, "list": [None, {"a": None}]}
THING = {"apiGroup": "contract.example", "resource": "things", "name": "thing", "uid": "thing-uid"}
"""No pod: kube-controller-manager would take one out that is not there."""
GUARD = {"apiGroup": "gpu-dra.io", "resource": "allocations", "name": "guard", "uid": "guard-uid"}


def result(device: str = "gpu-0", **more: Any) -> Json:
    return {"request": "gpus", "driver": "gpu.contract.example", "pool": "node-a", "device": device, **more}


def allocation(*results: Json, **more: Any) -> Json:
    """One that nobody compares with any slice."""
    selector = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}]}
    return {"devices": {"results": list(results) or [result()]}, "nodeSelector": selector, **more}


class Writes:
    """A claim of this test's own, and writes to it."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        request = {"name": "gpus", "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}}
        spec = msgspec.json.encode({"devices": {"requests": [request]}})
        name = f"contract-{secrets.token_hex(4)}"
        self.claim = client.create(
            CLAIMS, Claim(metadata=Meta(name=name, namespace=NAMESPACE), spec=msgspec.Raw(spec)), namespace=NAMESPACE
        )

    def put(self, status: Json, claim: Claim | None = None) -> Claim:
        """The status whole, as the claim was last seen."""
        meta = (claim or self.claim).metadata
        body = {"metadata": {"name": meta.name, "namespace": meta.namespace, "resourceVersion": meta.resource_version}}
        self.claim = self.client.replace_status(CLAIMS, meta, {**body, "status": status})
        return self.claim

    def patch_status(self, status: Json) -> Claim:
        meta = self.claim.metadata
        body = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        self.claim = self.client.patch(CLAIMS, meta, body, subresource="status")
        return self.claim

    def patch(self, metadata: Json, **more: Any) -> Claim:
        version = {"resourceVersion": self.claim.metadata.resource_version}
        self.claim = self.client.patch(CLAIMS, self.claim.metadata, {"metadata": version | metadata, **more})
        return self.claim

    def remove(self) -> None:
        """Free it, and let it go."""
        with contextlib.suppress(NotFound):
            meta = self.claim.metadata
            body = {"status": {"allocation": None, "reservedFor": None}}
            self.client.patch(CLAIMS, meta, body, subresource="status")
            self.client.patch(CLAIMS, meta, {"metadata": {"finalizers": None}})
            self.client.delete(CLAIMS, meta)


@pytest.fixture
def writes(cluster: Cluster) -> Iterator[Writes]:
    made = Writes(cluster.client)
    yield made
    made.remove()


def test_an_allocation_that_was_put_is_there_to_the_letter(writes: Writes) -> None:
    config = [{"source": "FromClaim", "opaque": {"driver": "gpu.contract.example", "parameters": PARAMETERS}}]
    wanted = allocation(allocationTimestamp="2027-01-15T08:00:00Z")
    wanted["devices"]["config"] = config
    written = writes.put({"allocation": wanted, "reservedFor": [GUARD, THING]})
    assert written.status.allocation is not None
    assert written.status.allocation.allocation_timestamp == "2027-01-15T08:00:00Z"
    assert [each.name for each in written.status.reserved_for] == ["guard", "thing"]
    raw = writes.client.get(_RAW_CLAIMS, written.metadata.name, namespace=NAMESPACE)
    stored = msgspec.json.decode(raw.status)
    assert stored["allocation"]["devices"]["config"][0]["opaque"]["parameters"] == PARAMETERS


class _RawClaim(msgspec.Struct, frozen=True):
    metadata: Meta
    status: msgspec.Raw


_RAW_CLAIMS = Resource(group_version=CLAIMS.group_version, plural=CLAIMS.plural, type_=_RawClaim)


def test_the_spec_is_not_touched_by_a_put_without_one(writes: Writes) -> None:
    before = writes.claim.spec
    assert writes.put({"allocation": allocation()}).spec == before


def test_a_put_of_what_was_seen_too_early_is_a_conflict(writes: Writes) -> None:
    early = writes.claim
    writes.patch({"labels": {"a": "b"}})
    with pytest.raises(Conflict, match="has been modified"):
        writes.put({"allocation": allocation()}, early)


def test_an_allocation_is_never_changed(writes: Writes) -> None:
    writes.put({"allocation": allocation()})
    for other in (allocation(result("gpu-1")), allocation(allocationTimestamp="2027-01-15T08:00:00Z")):
        with pytest.raises(Invalid, match=r"field (cannot be modified once set|is immutable)"):  # 1.36 says the latter
            writes.put({"allocation": other})


def test_nobody_is_reserved_without_an_allocation(writes: Writes) -> None:
    with pytest.raises(Invalid, match="may not be specified when `allocated` is not set"):
        writes.put({"reservedFor": [THING]})
    writes.put({"allocation": allocation(), "reservedFor": [THING]})
    with pytest.raises(Invalid, match="may not be specified when `allocated` is not set"):
        writes.patch_status({"allocation": None})
    freed = writes.patch_status({"allocation": None, "reservedFor": None})
    assert (freed.status.allocation, freed.status.reserved_for) == (None, ())


def test_reserved_for_is_replaced_whole_by_a_patch(writes: Writes) -> None:
    writes.put({"allocation": allocation(), "reservedFor": [GUARD, THING]})
    assert [each.name for each in writes.patch_status({"reservedFor": [THING]}).status.reserved_for] == ["thing"]
    assert writes.patch_status({"reservedFor": []}).status.reserved_for == ()


def test_finalizers_and_annotations_go_by_the_main_object_alone(writes: Writes) -> None:
    marked = writes.patch({"finalizers": [FINALIZER], "annotations": {"a": "b"}})
    assert (marked.metadata.finalizers, marked.metadata.annotations) == ((FINALIZER,), {"a": "b"})
    meta: Json = {"resourceVersion": marked.metadata.resource_version, "finalizers": [], "annotations": None}
    body = {"metadata": meta, "status": {"allocation": allocation()}}
    written = writes.client.patch(CLAIMS, marked.metadata, body, subresource="status")
    assert (written.metadata.finalizers, written.metadata.annotations) == ((FINALIZER,), {"a": "b"})
    writes.claim = written
    assert writes.patch({"labels": {"c": "d"}}, status={"allocation": None}).status.allocation is not None


def test_a_claim_that_is_kept_stays_until_its_finalizer_goes(writes: Writes) -> None:
    writes.patch({"finalizers": ["contract.example/keep"]})
    writes.put({"allocation": allocation(), "reservedFor": [THING]})
    writes.client.delete(CLAIMS, writes.claim.metadata)
    writes.claim = writes.client.get(CLAIMS, writes.claim.metadata.name, namespace=NAMESPACE)
    assert writes.claim.metadata.deletion_timestamp
    with pytest.raises(Invalid, match="new entries may not be added"):
        writes.patch_status({"reservedFor": [THING, GUARD]})
    with pytest.raises(Invalid, match="no new finalizers can be added"):
        writes.patch({"finalizers": ["contract.example/keep", "contract.example/more"]})
    writes.patch_status({"allocation": None, "reservedFor": None})
    writes.patch({"finalizers": None})
    with pytest.raises(NotFound):
        writes.client.get(CLAIMS, writes.claim.metadata.name, namespace=NAMESPACE)


BAD: dict[str, Json] = {
    "a request that is not in the claim": {"allocation": allocation(result(request="other"))},
    "a device in upper case": {"allocation": allocation(result("GPU-0"))},
    "a share id that is no uuid": {"allocation": allocation(result(shareID="one"))},
    "33 devices": {"allocation": allocation(*(result(f"gpu-{number}") for number in range(33)))},
    "a config from nowhere": {
        "allocation": {
            "devices": {
                "results": [result()],
                "config": [{"source": "FromNowhere", "opaque": {"driver": "a.example", "parameters": {"a": 1}}}],
            }
        }
    },
    "the same consumer twice": {"allocation": allocation(), "reservedFor": [THING, THING]},
    "a consumer without a uid": {"allocation": allocation(), "reservedFor": [{"resource": "pods", "name": "pod"}]},
    "257 consumers": {
        "allocation": allocation(),
        "reservedFor": [{"resource": "pods", "name": "pod", "uid": f"uid-{number}"} for number in range(257)],
    },
    "the status of a device that is not allocated": {
        "allocation": allocation(),
        "devices": [{"driver": "gpu.contract.example", "pool": "node-a", "device": "gpu-7"}],
    },
}


@pytest.mark.parametrize("status", BAD.values(), ids=BAD.keys())
def test_a_status_against_the_rules_is_refused(writes: Writes, status: Json) -> None:
    with pytest.raises(Invalid):
        writes.put(status)


def test_the_same_device_may_be_in_two_claims_as_far_as_the_server_cares(cluster: Cluster, writes: Writes) -> None:
    """Which is why the controller watches for it."""
    other = Writes(cluster.client)
    for each in (writes, other):
        assert each.put({"allocation": allocation()}).status.allocation is not None
    other.remove()


@pytest.mark.parametrize(
    "spec",
    [LeaseSpec(lease_duration_seconds=-1), LeaseSpec(holder_identity="a", lease_transitions=-1)],
    ids=["a negative duration", "negative transitions"],
)
def test_a_lease_against_the_rules_is_refused(cluster: Cluster, spec: LeaseSpec) -> None:
    metadata = ObjectMeta(name=f"contract-{secrets.token_hex(4)}", namespace=NAMESPACE)
    with pytest.raises(Invalid):
        cluster.client.create(LEASES, Lease(metadata=metadata, spec=spec), namespace=NAMESPACE)
