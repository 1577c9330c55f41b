"""The types of the names that travel: never a bare ``str`` in a signature.

A value of these types has passed the check of the module that makes it (``topology.names``, ``api``); a name that comes from
outside becomes one only there.
"""

from __future__ import annotations

from typing import NewType

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
