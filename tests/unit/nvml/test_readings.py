"""PCI addresses, as they are read and written."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.names import PciAddress
from driver.nvml.mock.devices import encode_bus_id

ADDRESSES = st.builds(
    PciAddress,
    domain=st.integers(0, 2**32 - 1),
    bus=st.integers(0, 255),
    device=st.integers(0, 255),
    function=st.integers(0, 7),
)


@given(ADDRESSES)
def test_an_address_is_read_back_from_linux_and_from_nvml_form(pci: PciAddress) -> None:
    assert PciAddress.parse(str(pci)) == pci
    assert PciAddress.parse(encode_bus_id(pci)) == pci


@pytest.mark.parametrize(
    ("text", "linux"),
    [
        ("00000000:4E:00.0", "0000:4e:00.0"),
        ("4e:00.0", "0000:4e:00.0"),
        ("0000000F:01:00.0", "000f:01:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        (" 0000:4e:00.7\n", "0000:4e:00.7"),
    ],
)
def test_linux_form_has_four_digits_of_domain_or_as_many_as_it_needs(text: str, linux: str) -> None:
    assert str(PciAddress.parse(text)) == linux


@pytest.mark.parametrize(
    "text", ["", "4e:00", "4e:00.8", "000:4e:00.0", "000000000:4e:00.0", "0000:4e:00.0/..", "0000:4g:00.0"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no PCI address"):
        PciAddress.parse(text)


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert PciAddress.parse(text).bus < 256


def test_addresses_order_as_slots_do() -> None:
    texts = ["0000:e1:00.0", "0001:01:00.0", "0000:01:00.1", "0000:01:00.0", "0000:0a:00.0"]
    ordered = [str(pci) for pci in sorted(PciAddress.parse(text) for text in texts)]
    assert ordered == ["0000:01:00.0", "0000:01:00.1", "0000:0a:00.0", "0000:e1:00.0", "0001:01:00.0"]
