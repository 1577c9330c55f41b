"""CDI's names for what a claim was given, and what a legal name is. Pure.

A claim's uid is in every name, so that a name is never used again with other content: runtimes keep what they read
(contracts 3.2). Source for the grammar: the CDI specification, kinds and device names.
"""

from __future__ import annotations

import re

from driver.errors import ClaimError
from driver.names import CDIDeviceID, ClaimUID, DeviceName, is_uid

CLAIM_KIND = "k8s.gpu.nvidia.com/claim"

_KIND_PART = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")


def validate_uid(text: str) -> ClaimUID:
    """``text`` as a claim's uid. Only what has passed here may become part of a file's name.

    Raises:
        ClaimError: it is none.
    """
    if not is_uid(text):
        raise ClaimError(f"{text[:64]!r} is no claim uid (36 characters of lower-case hex and dashes)")
    return ClaimUID(text)


def is_legal_kind(text: str) -> bool:
    """True for ``<vendor>/<class>`` as CDI takes it."""
    vendor, slash, klass = text.partition("/")
    return bool(slash) and _KIND_PART.fullmatch(vendor) is not None and _KIND_PART.fullmatch(klass) is not None


def is_legal_device(text: str) -> bool:
    """True for a device's name inside of a kind."""
    return _DEVICE.fullmatch(text) is not None


def build_device_id(kind: str, name: str) -> CDIDeviceID:
    """``<kind>=<name>``, the form that a runtime is asked with."""
    if not is_legal_kind(kind) or not is_legal_device(name):
        raise ClaimError(f"{kind[:80]}={name[:160]!r} is no legal CDI device")
    return CDIDeviceID(f"{kind}={name}")


def build_claim_device_id(uid: ClaimUID, device: DeviceName, share_id: str | None) -> CDIDeviceID:
    """The CDI device of one result: ``<uid>-<device>``, with the share id where the device is shared (R25)."""
    if share_id is not None and not is_uid(share_id):
        raise ClaimError(f"claim {uid}: share id {share_id[:64]!r} of device {device} is no uid")
    share = f"-{share_id}" if share_id is not None else ""
    return build_device_id(CLAIM_KIND, f"{validate_uid(uid)}-{device}{share}")


def device_of_id(device_id: str) -> str:
    """The name in ``<kind>=<name>``."""
    return device_id.rpartition("=")[2]
