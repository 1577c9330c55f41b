"""Server-side apply of ``status.devices`` of claims: each manager owns the entries and conditions that it applied last."""

from __future__ import annotations

import copy
from typing import Any

from tests.fakes.kube_store import Refused

Json = dict[str, Any]
Key = tuple[object, ...]
Owned = dict[Key, frozenset[str]]
"""The types of the conditions of each device."""

_KEYS = ("driver", "pool", "device", "shareID")


class ApplyBook:
    """What each manager applied, by object."""

    def __init__(self) -> None:
        self._owned: dict[tuple[str, str], Owned] = {}

    def apply(self, old: Json, body: Json, query: dict[str, str]) -> Json:
        """The object with what the body says, and without what its manager said before and says no more."""
        manager = query.get("fieldManager", "")
        if not manager or not body.get("apiVersion") or not body.get("kind"):
            raise Refused(400, "BadRequest", "apply needs fieldManager, apiVersion and kind")
        if set(body) - {"apiVersion", "kind", "metadata", "status"} or set(body.get("status", {})) - {"devices"}:
            raise Refused(415, "UnsupportedMediaType", "the fake applies status.devices only")
        place = (old["metadata"]["uid"], manager)
        entries = {_key(each): copy.deepcopy(each) for each in old.get("status", {}).get("devices", [])}
        for key, types in self._owned.get(place, {}).items():
            _take_out(entries, key, types)
        applied = body.get("status", {}).get("devices", [])
        for each in applied:
            _put_in(entries, each)
        self._owned[place] = {_key(each): frozenset(c["type"] for c in each.get("conditions", [])) for each in applied}
        status = {**old.get("status", {}), "devices": list(entries.values())}
        return {**old, "metadata": {**old["metadata"], **body["metadata"]}, "status": status}


def _key(entry: Json) -> Key:
    return tuple(entry.get(key) for key in _KEYS)


def _take_out(entries: dict[Key, Json], key: Key, types: frozenset[str]) -> None:
    entry = entries.get(key)
    if entry is None:
        return
    entry["conditions"] = [each for each in entry.get("conditions", []) if each["type"] not in types]
    if not entry["conditions"]:
        del entry["conditions"]
    if not set(entry) - set(_KEYS):
        del entries[key]


def _put_in(entries: dict[Key, Json], applied: Json) -> None:
    for each in applied.get("conditions", []):
        missing = {"type", "status", "lastTransitionTime", "reason"} - {key for key, value in each.items() if value}
        if missing:
            raise Refused(422, "Invalid", f"status.devices.conditions: Required value: {sorted(missing)}")
    entry = entries.setdefault(_key(applied), {key: applied[key] for key in _KEYS if key in applied})
    fresh = {each["type"]: each for each in applied.get("conditions", [])}
    rest = [each for each in entry.get("conditions", []) if each["type"] not in fresh]
    entry["conditions"] = [*rest, *fresh.values()]
