"""The types of the names that travel: never a bare ``str`` in a signature.

A value of these types has passed the check of the module that makes it (``topology.names``, ``api``); a name that comes from
outside becomes one only there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NewType

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
