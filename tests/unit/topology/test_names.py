"""A device name stands for one slot, and nothing from outside is taken for a name unchecked."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.names import PciAddress
from driver.topology.names import gpu_device_name, parse_device_name, parse_gpu_name

addresses = st.builds(PciAddress, st.integers(0, 2**32 - 1), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 7))


def test_a_whole_gpu_is_named_by_its_slot() -> None:
    assert gpu_device_name(PciAddress.parse("00000000:4E:00.0")) == "gpu-0000-4e-00-0"


def test_a_long_pci_domain_keeps_all_its_digits() -> None:
    """Slots behind VMD have domains above ffff."""
    assert gpu_device_name(PciAddress(0x10001, 1, 0)) == "gpu-10001-01-00-0"


@given(addresses)
@settings(max_examples=200, deadline=None)
def test_a_name_reads_back_as_its_slot_and_is_a_dns_label(pci: PciAddress) -> None:
    name = gpu_device_name(pci)
    assert parse_gpu_name(name) == pci
    assert parse_device_name(name) == name


@given(st.from_regex(r"gpu-[0-9a-f]{4,8}-[0-9a-f]{2}-[0-9a-f]{2}-[0-9]", fullmatch=True))
@settings(max_examples=200, deadline=None)
def test_no_two_names_stand_for_one_slot(name: str) -> None:
    pci = parse_gpu_name(name)
    assert pci is None or gpu_device_name(pci) == name


OTHER_NAMES = {
    "a MIG device": "gpu-0000-4e-00-0-mig-1g-10gb-p19-3",
    "a domain with a needless zero": "gpu-00000-4e-00-0",
    "upper case": "gpu-0000-4E-00-0",
    "NVIDIA's name by minor": "gpu-0",
    "no function": "gpu-0000-4e-00",
    "a function beyond 7": "gpu-0000-4e-00-8",
    "a line end": "gpu-0000-4e-00-0\n",
    "nothing": "",
}


@pytest.mark.parametrize("name", OTHER_NAMES.values(), ids=OTHER_NAMES.keys())
def test_every_other_name_is_no_whole_gpu(name: str) -> None:
    assert parse_gpu_name(name) is None


@pytest.mark.parametrize("name", ["a", "0", "gpu-0", "gpu-0000-4e-00-0-mig-1g-10gb-p19-3", "a" * 63])
def test_a_dns_label_is_taken_from_outside(name: str) -> None:
    assert parse_device_name(name) == name


HOSTILE_NAMES = {
    "empty": "",
    "parent folder": "..",
    "path": "gpu/../../etc/passwd",
    "64 bytes": "a" * 64,
    "very long": "a" * 100_000,
    "upper case": "Gpu-0",
    "underscore": "gpu_0",
    "dot": "gpu.0",
    "dash in front": "-gpu",
    "dash behind": "gpu-",
    "line end": "gpu-0\n",
    "NUL": "gpu\x000",
    "other alphabet": "gpu-\u00e9",
    "qualified CDI id": "k8s.gpu.nvidia.com/claim=x",
}


@pytest.mark.parametrize("text", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES.keys())
def test_what_is_no_dns_label_is_refused_in_a_short_message(text: str) -> None:
    with pytest.raises(ValueError, match="no device name") as caught:
        parse_device_name(text)
    assert len(str(caught.value)) < 300
