"""What a container gets by CDI files, as a container runtime reads them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CdiFile:
    """One file of the CDI folder."""

    name: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerView:
    """``files`` are those that were used; paths are the container's own."""

    files: tuple[str, ...]
    env: tuple[str, ...]
    device_nodes: tuple[str, ...]
    mounts: tuple[str, ...]


def build_container_view(files: Sequence[CdiFile], device_ids: Sequence[str]) -> ContainerView:
    """The edits of the asked devices and of their files as a whole, each once, in order."""
    used, edits = [], []
    for file in files:
        chosen = [each for each in file.spec.get("devices", ()) if f"{file.spec['kind']}={each['name']}" in device_ids]
        if chosen:
            used.append(file.name)
            edits += [each.get("containerEdits", {}) for each in (*chosen, file.spec)]
    return ContainerView(
        files=tuple(used),
        env=_once(text for each in edits for text in each.get("env", ())),
        device_nodes=_once(node["path"] for each in edits for node in each.get("deviceNodes", ())),
        mounts=_once(mount["containerPath"] for each in edits for mount in each.get("mounts", ())),
    )


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
