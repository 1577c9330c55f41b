"""The types of the names that travel, and Kubernetes' grammar for those that come from outside.

Text from outside is checked by one of the functions below before it becomes part of a path, a lock or another name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NewType

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DNS_SUBDOMAIN_MAX = 253
_PCI = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")

ClaimUID = NewType("ClaimUID", str)
"""A ResourceClaim's ``metadata.uid``: 36 characters of lower-case hex and dashes."""

DeviceName = NewType("DeviceName", str)
"""A device's name in its pool: a DNS label, at most 63 bytes (``gpu-0000-4e-00-0``)."""

PoolName = NewType("PoolName", str)
"""A pool's name: the node's name."""

GpuUUID = NewType("GpuUUID", str)
"""NVML's UUID of a physical GPU (``GPU-…``)."""

CDIDeviceID = NewType("CDIDeviceID", str)
"""A qualified CDI device: ``<vendor>/<class>=<name>``."""


@dataclass(frozen=True, slots=True, order=True)
class PciAddress:
    """A PCI function. Orders by domain, bus, device, function: this is the order of the machine's slots."""

    domain: int
    bus: int
    device: int
    function: int = 0

    @classmethod
    def parse(cls, text: str) -> PciAddress:
        """Reads ``0000:4e:00.0``, NVML's ``00000000:4E:00.0``, or ``4e:00.0``.

        Raises:
            ValueError: the text is no PCI address.
        """
        match = _PCI.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is no PCI address such as 0000:4e:00.0")
        domain, bus, device, function = match.groups(default="0")
        return cls(int(domain, 16), int(bus, 16), int(device, 16), int(function, 16))

    def __str__(self) -> str:
        """Linux's form, ``0000:4e:00.0``: lower case, four digits of domain or as many as it needs."""
        return f"{self.domain:04x}:{self.bus:02x}:{self.device:02x}.{self.function:x}"


def is_uid(text: str) -> bool:
    """True for the text of an object's uid."""
    return _UID.fullmatch(text) is not None


def is_dns_label(text: str) -> bool:
    """True for at most 63 characters of lower-case letters, digits and inner dashes."""
    return _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """True for lower-case names joined by dots, at most 253 characters: what Kubernetes takes for an object's name."""
    return len(text) <= _DNS_SUBDOMAIN_MAX and _DNS_SUBDOMAIN.fullmatch(text) is not None
