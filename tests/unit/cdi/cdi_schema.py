"""The JSON schema of a CDI file, written from the specification (0.6.0) on its own, so that it does not share our mistakes."""

from __future__ import annotations

from typing import Any

import fastjsonschema

_STRING = {"type": "string"}
_STRINGS = {"type": "array", "items": _STRING}

_EDITS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "env": {"type": "array", "items": {"type": "string", "pattern": "^[^=]+=.*$"}},
        "deviceNodes": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["path"],
                "properties": {
                    "path": {"type": "string", "pattern": "^/"},
                    "hostPath": {"type": "string", "pattern": "^/"},
                    "type": {"enum": ["b", "c", "u", "p"]},
                    "major": {"type": "integer", "minimum": 0},
                    "minor": {"type": "integer", "minimum": 0},
                    "fileMode": {"type": "integer"},
                    "permissions": {"type": "string", "pattern": "^[rwm]*$"},
                    "uid": {"type": "integer"},
                    "gid": {"type": "integer"},
                },
            },
        },
        "mounts": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["hostPath", "containerPath"],
                "properties": {
                    "hostPath": {"type": "string", "pattern": "^/"},
                    "containerPath": {"type": "string", "pattern": "^/"},
                    "type": _STRING,
                    "options": _STRINGS,
                },
            },
        },
        "hooks": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["hookName", "path"],
                "properties": {
                    "hookName": {
                        "enum": ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"]
                    },
                    "path": {"type": "string", "pattern": "^/"},
                    "args": _STRINGS,
                    "env": _STRINGS,
                    "timeout": {"type": "integer"},
                },
            },
        },
    },
}

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["cdiVersion", "kind", "devices"],
    "properties": {
        "cdiVersion": {"enum": ["0.3.0", "0.4.0", "0.5.0", "0.6.0"]},
        "kind": {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_.-]*/[A-Za-z][A-Za-z0-9_.-]*$"},
        "annotations": {"type": "object", "additionalProperties": _STRING},
        "devices": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name", "containerEdits"],
                "properties": {
                    "name": {"type": "string", "pattern": "^[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$"},
                    "annotations": {"type": "object", "additionalProperties": _STRING},
                    "containerEdits": {**_EDITS, "minProperties": 1},
                },
            },
        },
        "containerEdits": _EDITS,
    },
}

validate_cdi = fastjsonschema.compile(_SCHEMA)
