"""The chart with its defaults, as ``make manifests`` has written it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
MANIFESTS = ROOT / "deploy" / "manifests" / "gpu-dra.yaml"
OBJECTS: list[dict[str, Any]] = [each for each in yaml.safe_load_all(MANIFESTS.read_text()) if each]


def find(kind: str, name: str = "") -> dict[str, Any]:
    """The one object of this kind, and of this name where one is given."""
    found = [each for each in OBJECTS if each["kind"] == kind and name in {"", each["metadata"]["name"]}]
    assert len(found) == 1, f"{len(found)} of kind {kind} {name}"
    return found[0]
