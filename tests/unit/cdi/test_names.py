"""Names that CDI and file systems take."""

from __future__ import annotations

import itertools

import pytest

from driver.cdi import names
from driver.errors import ClaimError
from driver.names import ClaimUID, DeviceName
from tests.fakes.claims import device, uid

SHARE = "11111111-1111-4111-8111-111111111111"


def test_b52_a_device_of_a_claim_has_the_claims_uid_in_its_name() -> None:
    assert names.build_claim_device_id(uid(1), device(0), None) == f"k8s.gpu.nvidia.com/claim={uid(1)}-gpu-0000-10-00-0"
    assert names.build_claim_device_id(uid(1), device(0), SHARE).endswith(f"-gpu-0000-10-00-0-{SHARE}")


def test_b52_names_are_legal_and_different_for_different_things() -> None:
    devices = [device(n) for n in range(16)] + [DeviceName(f"gpu-0000-10-00-0-mig-1g-10gb-p19-{n}") for n in range(8)]
    made = [
        names.build_claim_device_id(uid(number), name, share)
        for number, name, share in itertools.product((1, 2), devices, (None, SHARE, SHARE.replace("1", "2")))
    ]
    assert len(set(made)) == len(made)
    assert all(names.is_legal_device(names.device_of_id(each)) for each in made)


@pytest.mark.parametrize("text", ["1g.10gb+me", "MIG-GPU-a/1/0", "", "-a", "a-", "a b", "a\n", "ä", "a" + "=" + "b"])
def test_b52_what_cdi_does_not_take_is_refused(text: str) -> None:
    assert not names.is_legal_device(text)
    with pytest.raises(ClaimError, match="is no legal CDI device"):
        names.build_device_id("k8s.gpu.nvidia.com/claim", text)


@pytest.mark.parametrize(
    ("kind", "is_legal"),
    [
        ("nvidia.com/gpu", True),
        ("k8s.gpu.nvidia.com/claim", True),
        ("gpu", False),
        ("1a.com/x", False),
        ("a/b/c", False),
        ("a/", False),
        ("/b", False),
        ("a-/b", False),
    ],
)
def test_kinds_have_a_vendor_and_a_class(kind: str, is_legal: bool) -> None:
    assert names.is_legal_kind(kind) is is_legal


def test_a_uid_is_kept_as_it_is_and_the_rest_is_an_error() -> None:
    assert names.validate_uid(uid(7)) == uid(7)
    for text in ("", "../" + uid(1), uid(1) + "\n", uid(1).upper().replace("0", "A"), uid(1)[:-1] + "g"):
        with pytest.raises(ClaimError, match="is no claim uid"):
            names.validate_uid(ClaimUID(text))
