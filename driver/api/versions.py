"""Vendor version texts as the strict semantic versions that Kubernetes takes in a version attribute."""

from __future__ import annotations

import re

from driver.api.resource_v1 import DEVICE_ATTRIBUTE_MAX_VALUE_BYTES

_VENDOR = re.compile(r"(\d{1,18})(?:\.(\d{1,18}))?(?:\.(\d{1,18}))?(?:\.\d+)*(?P<suffix>[-+].*)?", re.ASCII | re.DOTALL)
_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_PRERELEASE = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_SUFFIX = re.compile(rf"(?:-{_PRERELEASE}(?:\.{_PRERELEASE})*)?(?:\+{_IDENTIFIERS})?", re.ASCII)


def parse_version(text: str) -> str | None:
    """``580.159.04`` → ``580.159.4``, ``13.0`` → ``13.0.0``; None for what is no version.

    One bad version makes the API server refuse the whole slice (B19), so nothing is passed on that its grammar does not know:
    leading zeros go, absent parts are 0, numbers after the third are cut. Each number has at most 18 digits, because CEL reads
    them as 64-bit integers.
    """
    match = _VENDOR.fullmatch(text.strip())
    if match is None:
        return None
    suffix = match["suffix"] or ""
    if _SUFFIX.fullmatch(suffix) is None:
        return None
    version = ".".join(str(int(part or "0")) for part in match.group(1, 2, 3)) + suffix
    return version if len(version) <= DEVICE_ATTRIBUTE_MAX_VALUE_BYTES else None
