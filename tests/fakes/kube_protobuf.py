"""Objects as protobuf, as far as the fake API server is asked for it: metadata for an edit, all else as one block of bytes."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from driver.kube.protobuf import MAGIC, build_field, read_fields

Json = dict[str, Any]


class _Opaque(msgspec.Struct):
    parameters: msgspec.Raw = msgspec.Raw(b"{}")


class _Config(msgspec.Struct):
    opaque: _Opaque = msgspec.field(default_factory=_Opaque)


class _Devices(msgspec.Struct):
    config: list[_Config] = []


class _Spec(msgspec.Struct):
    devices: _Devices = msgspec.field(default_factory=_Devices)


class _Claim(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


def has_loose_parameters(body: bytes) -> bool:
    """Whether opaque parameters of a claim have white space between their values: they are stored as they came."""
    try:
        held = msgspec.json.decode(body, type=_Claim).spec.devices.config
    except msgspec.ValidationError:
        return False  # an object of another kind
    return any(
        bytes(each.opaque.parameters) != json.dumps(json.loads(bytes(each.opaque.parameters)), separators=(",", ":")).encode()
        for each in held
    )


_NAMES = {1: "name", 3: "namespace", 5: "uid", 6: "resourceVersion"}
_REST = 50


def encode(body: Json) -> bytes:
    """An object in its envelope."""
    meta = body["metadata"]
    fields = [build_field(number, meta[name].encode()) for number, name in _NAMES.items() if name in meta]
    for key, value in meta.get("annotations", {}).items():
        fields.append(build_field(12, build_field(1, key.encode()) + build_field(2, value.encode())))
    fields += [build_field(14, each.encode()) for each in meta.get("finalizers", [])]
    rest = build_field(_REST, json.dumps(body).encode())
    return MAGIC + build_field(2, build_field(1, b"".join(fields)) + rest)


def decode(data: bytes) -> Json:
    """What ``encode`` made, with the metadata that was edited."""
    raw = next(field.inner for field in read_fields(data.removeprefix(MAGIC)) if field.number == 2)
    parts = {field.number: field.inner for field in read_fields(raw)}
    body: Json = json.loads(parts[_REST])
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    for field in read_fields(parts[1]):
        if field.number == 12:
            entry = {each.number: each.inner.decode() for each in read_fields(field.inner)}
            annotations[entry[1]] = entry[2]
        elif field.number == 14:
            finalizers.append(field.inner.decode())
    body["metadata"] |= {"annotations": annotations, "finalizers": finalizers}
    return body
