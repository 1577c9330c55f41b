"""TopologyPolicy: what it may say, and that every fault is named with its field."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from driver.api.topology_policy import Mode, Packing, Policy, Scope, decode_policy
from driver.errors import ConfigInvalid

HEAD = {"apiVersion": "gpu-dra.io/v1alpha1", "kind": "TopologyPolicy"}


def decode(value: dict[str, Any]) -> Policy | None:
    return decode_policy(msgspec.json.encode(value), "claim a")


def test_nothing_said_is_preferred_nvlink_packed() -> None:
    assert decode(HEAD) == Policy(scope=Scope.NVLINK, mode=Mode.PREFERRED, packing=Packing.PACK)


def test_all_said() -> None:
    said = decode({**HEAD, "scope": "numa", "mode": "required", "packing": "spread"})
    assert said == Policy(scope=Scope.NUMA, mode=Mode.REQUIRED, packing=Packing.SPREAD)


def test_other_kinds_are_no_policy() -> None:
    assert decode({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "scope": 7}) is None


def test_every_fault_is_named() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        decode({**HEAD, "scope": "galaxy", "mode": 1, "pack": "spread"})
    assert caught.value.faults == (
        "pack: unknown field, allowed are apiVersion, kind, mode, packing, scope; did you mean 'packing'?",
        'scope: "galaxy" is not one of nvlink, pcie, numa, node',
        "mode: 1 is not one of required, preferred",
    )


def test_a_key_that_stands_twice_is_a_fault() -> None:
    with pytest.raises(ConfigInvalid, match="scope: stands there twice"):
        decode_policy(b'{"apiVersion":"gpu-dra.io/v1alpha1","kind":"TopologyPolicy","scope":"numa","scope":"pcie"}', "x")


@pytest.mark.parametrize("text", [b"[]", b"{", b""], ids=["a list", "half", "nothing"])
def test_what_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigInvalid, match="parameters:"):
        decode_policy(text, "claim a")
