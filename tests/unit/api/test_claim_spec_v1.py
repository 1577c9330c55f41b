"""Specs are decoded whole: what is not known is refused, never dropped (R14)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from driver.api.claim_spec_v1 import (
    ALL,
    SpecFault,
    decode_claim_spec,
    decode_class_spec,
)

EXACTLY = {
    "deviceClassName": "gpu",
    "selectors": [{"cel": {"expression": "true"}}],
    "allocationMode": ALL,
    "adminAccess": True,
    "tolerations": [{"key": "a", "operator": "Exists", "value": "", "effect": "NoExecute", "tolerationSeconds": 3}],
    "capacity": {"requests": {"memory": "1Gi"}},
}


def encode(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value)


def test_every_field_of_1_37_is_read() -> None:
    spec = decode_claim_spec(
        encode(
            {
                "devices": {
                    "requests": [
                        {"name": "a", "exactly": EXACTLY},
                        {"name": "b", "firstAvailable": [{"name": "c", "deviceClassName": "gpu", "count": 2}]},
                    ],
                    "constraints": [{"requests": ["a"], "matchAttribute": "x/y"}, {"distinctAttribute": "x/z"}],
                    "config": [{"requests": ["a"], "opaque": {"driver": "d", "parameters": {"k": [1]}}}],
                }
            }
        )
    )
    exactly = spec.devices.requests[0].exactly
    assert exactly is not None
    assert (exactly.allocation_mode, exactly.count, exactly.admin_access) == (ALL, 1, True)
    assert exactly.tolerations[0].toleration_seconds == 3
    assert spec.devices.requests[1].first_available[0].count == 2
    assert spec.devices.constraints[1].distinct_attribute == "x/z"
    opaque = spec.devices.config[0].opaque
    assert opaque is not None
    assert bytes(opaque.parameters) == b'{"k":[1]}'


@pytest.mark.parametrize(
    "devices",
    [
        {"requests": [{"name": "a", "exactly": {**EXACTLY, "derivedAttributes": []}}]},
        {"requests": [{"name": "a", "firstAvailable": [{"name": "b", "deviceClassName": "c", "adminAccess": True}]}]},
        {"requests": [{"name": "a", "someday": {}}]},
        {"constraints": [{"requests": [], "sumAttribute": "x"}]},
        {"requests": [{"name": "a", "exactly": {"deviceClassName": "c", "selectors": [{"rego": {}}]}}]},
        {"requests": [{"name": "a", "exactly": {"deviceClassName": "c", "count": "2"}}]},
        {"someday": True},
    ],
    ids=["derived attributes", "sub-request", "request", "constraint", "selector kind", "wrong type", "claim"],
)
def test_what_is_not_known_makes_the_claim_unreadable(devices: dict[str, Any]) -> None:
    with pytest.raises(SpecFault, match="spec:"):
        decode_claim_spec(encode({"devices": devices}))


def test_classes_too() -> None:
    spec = decode_class_spec(
        encode(
            {
                "selectors": [{"cel": {"expression": "true"}}],
                "config": [{"opaque": {"driver": "d"}}],
                "extendedResourceName": "a/b",
            }
        )
    )
    assert (spec.selectors[0].cel.expression, spec.extended_resource_name) == ("true", "a/b")
    with pytest.raises(SpecFault):
        decode_class_spec(encode({"suitableNodes": {}}))
    with pytest.raises(SpecFault):
        decode_class_spec(b"{")
