"""Annotation and finalizer reach claims that JSON cannot change, as Kubernetes has them when Python wrote their parameters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from driver.controller.objects.model import CLAIMS, Claim
from driver.controller.objects.ownership import ALLOCATION_ANNOTATION, FINALIZER
from driver.controller.writing.claim_api import KubeClaimApi
from driver.controller.writing.claim_steps import build_mark, build_unmark
from driver.errors import Conflict, Invalid
from driver.kube.client import KubeClient
from tests.fakes.kube_api import FakeKubeApi, Fault


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    with FakeKubeApi() as running:
        metadata = {"name": "claim", "namespace": "team", "annotations": {"a": "1"}, "finalizers": ["example.com/x"]}
        running.create("resourceclaims", {"metadata": metadata, "spec": {"devices": {"requests": []}}})
        running.no_json.add("claim")
        yield running


@pytest.fixture
def client(api: FakeKubeApi) -> Iterator[KubeClient]:
    made = KubeClient(api.credentials(), timeout_s=5.0)
    yield made
    made.close()


def read_claim(client: KubeClient) -> Claim:
    return client.get(CLAIMS, "claim", namespace="team")


def test_a_claim_that_json_cannot_change_is_marked_and_unmarked(client: KubeClient, api: FakeKubeApi) -> None:
    writer = KubeClaimApi(client)
    claim = read_claim(client)
    marked = writer.patch(claim, build_mark(claim, "0123456789abcdef"))
    assert marked.metadata.annotations == {"a": "1", ALLOCATION_ANNOTATION: "0123456789abcdef"}
    assert marked.metadata.finalizers == ("example.com/x", FINALIZER)
    assert marked == read_claim(client)
    unmarked = writer.patch(marked, build_unmark(marked))
    assert (unmarked.metadata.annotations, unmarked.metadata.finalizers) == ({"a": "1"}, ("example.com/x",))
    assert api.objects("resourceclaims")[0]["spec"] == {"devices": {"requests": []}}


def test_somebody_elses_change_is_a_conflict(client: KubeClient, api: FakeKubeApi) -> None:
    claim = read_claim(client)
    api.edit(
        "resourceclaims",
        "claim",
        lambda body: {**body, "metadata": {**body["metadata"], "labels": {"new": "yes"}}},
        namespace="team",
    )
    with pytest.raises(Conflict):
        KubeClaimApi(client).patch(claim, build_mark(claim, "0123456789abcdef"))


def test_another_refusal_is_told_as_it_is(client: KubeClient, api: FakeKubeApi) -> None:
    claim = read_claim(client)
    api.fail(Fault(verb="patch", resource="resourceclaims", status=422, reason="Invalid", message="metadata.finalizers: no"))
    with pytest.raises(Invalid, match=r"metadata\.finalizers: no"):
        KubeClaimApi(client).patch(claim, build_mark(claim, "0123456789abcdef"))
    assert api.count("update") == 0
