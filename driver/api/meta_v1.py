"""``ObjectMeta`` and owner references, the fields that are read or written here; and times in the API's form."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec


def encode_time(moment: datetime) -> str:
    """``metav1.Time``: RFC 3339 in UTC, to the second. ``moment`` has a zone."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def encode_micro_time(moment: datetime) -> str:
    """``metav1.MicroTime``: the same, to the microsecond."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class OwnerReference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Who owns an object; the garbage collector removes the object with its owner."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None


class ObjectMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An object's metadata."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: str | None = None
