"""Objects as servers of several versions write them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import msgspec
import pytest

from driver.api.claim_spec_v1 import SpecFault, decode_claim_spec
from driver.api.resource_v1 import Device, ResourceClaim, ResourceSlice
from driver.controller.objects.model import CLAIMS, Claim
from driver.kube.answers import decode_object
from driver.kube.changes import Change
from driver.kube.watch import decode_event


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        pytest.param(
            b'{"spec": {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "devices": null}}',
            (),
            id="a null list",
        ),
        pytest.param(
            b'{"metadata": null, "spec": {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},'
            b' "devices": [{"name": "gpu", "attributes": null, "taints": null}]}}',
            (Device(name="gpu"),),
            id="nulls below",
        ),
    ],
)
def test_a_field_that_is_null_counts_as_absent(text: bytes, devices: tuple[Device, ...]) -> None:
    """Kubernetes 1.34 answers ``devices: null`` for a slice without devices."""
    assert decode_object(text, ResourceSlice).spec.devices == devices


def test_what_users_wrote_as_null_stays() -> None:
    """Opaque parameters are theirs, byte for byte as far as JSON goes."""
    text = b'{"metadata": {}, "status": {"allocation": {"devices": {"results": null,'
    text += b' "config": [{"source": "FromClaim", "requests": null,'
    text += b' "opaque": {"driver": "d", "parameters": {"a": null}}}]}}}}'
    allocation = decode_object(text, ResourceClaim).status.allocation
    assert allocation is not None
    (config,) = allocation.devices.config
    assert config.opaque is not None
    assert bytes(config.opaque.parameters) == b'{"a":null}'


def test_what_is_no_such_object_stays_an_error() -> None:
    with pytest.raises(msgspec.ValidationError, match="spec"):
        decode_object(b'{"metadata": {}}', ResourceSlice)


@pytest.fixture(autouse=True)
def _few_levels() -> Iterator[None]:
    """As in our processes, whatever pytest and its plugins have made of it."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize("levels", [200, 1100, 5000])
@pytest.mark.parametrize("more", ["", ', "finalizers": null'], ids=["plain", "with a null"])
def test_a_claim_whose_parameters_are_nested_thousands_deep_is_read(levels: int, more: str) -> None:
    """The API server takes it; if it could not be read, nobody's claims could."""
    deep = "[" * levels + "]" * levels
    text = f'{{"metadata": {{"name": "c"{more}}}, "spec": {{"devices": {{"config": [{{"opaque": {{"driver": "d", '
    text += f'"parameters": {{"a": {deep}}}}}}}]}}}}, "status": {{}}}}'
    claim = decode_object(text.encode(), Claim)
    assert claim.metadata.name == "c"
    event = decode_event(f'{{"type": "ADDED", "object": {text}}}'.encode(), CLAIMS)
    assert isinstance(event, Change)
    assert event.item.metadata.name == "c"


def test_a_spec_of_which_something_was_cut_is_not_read_as_if_it_were_whole() -> None:
    text = '{"spec": {"devices": {"config": [{"opaque": {"driver": "d", "parameters": ' + "[" * 5000 + "]" * 5000 + "}}]}}}"
    claim = decode_object(text.replace("{", '{"metadata": {}, ', 1).encode(), Claim)
    with pytest.raises(SpecFault, match="nested too deeply"):
        decode_claim_spec(bytes(claim.spec))


def test_a_spec_that_is_nested_just_too_deeply_for_where_it_is_read_is_a_fault() -> None:
    spec = '{"devices": {"config": [{"opaque": {"driver": "d", "parameters": ' + "[" * 1500 + "]" * 1500 + "}}]}}"
    with pytest.raises(SpecFault, match="recursion"):
        decode_claim_spec(spec.encode())
