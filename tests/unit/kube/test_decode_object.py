"""Objects as servers of several versions write them."""

from __future__ import annotations

import msgspec
import pytest

from driver.api.resource_v1 import Device, ResourceClaim, ResourceSlice
from driver.kube.answers import decode_object


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
