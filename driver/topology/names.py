"""Device names and what they stand for, both ways. No other place makes up a device's name.

A whole GPU is named by its PCI address, ``gpu-0000-4e-00-0``: the slot stays the same when another GPU falls off the bus, while
NVML's index and the minor number do not (B25). A MIG device's name goes on after that of its GPU (``…-mig-…``), so the two
forms never read as each other.
"""

from __future__ import annotations

import re

from driver.names import DeviceName, PciAddress, is_dns_label

_GPU = re.compile(r"gpu-([0-9a-f]{4}|[1-9a-f][0-9a-f]{4,7})-([0-9a-f]{2})-([0-9a-f]{2})-([0-7])")


def gpu_device_name(pci: PciAddress) -> DeviceName:
    """The name of the whole GPU at this address. One to one: ``parse_gpu_name`` gives the address back."""
    return DeviceName(f"gpu-{pci.domain:04x}-{pci.bus:02x}-{pci.device:02x}-{pci.function:x}")


def parse_gpu_name(name: str) -> PciAddress | None:
    """The address of the whole GPU that this is the name of; None for every other name, also a MIG device's."""
    match = _GPU.fullmatch(name)
    if match is None:
        return None
    domain, bus, device, function = (int(part, 16) for part in match.groups())
    return PciAddress(domain, bus, device, function)


def parse_device_name(text: str) -> DeviceName:
    """Takes a name that came from outside, after a check that it may stand in a path, a CDI id or a message.

    Raises:
        ValueError: the text is no DNS label of at most 63 bytes, so no driver can have published it.
    """
    if not is_dns_label(text):
        shown = text if len(text) <= 80 else text[:80] + "…"
        raise ValueError(f"{shown!r} is no device name: a DNS label of at most 63 bytes is needed (lower case, digits, dashes)")
    return DeviceName(text)
