"""An independent eye on all claims, which sees any device that is in two of them at any moment.

It follows every claim by a watch of its own and knows nothing of the driver. The events of a watch come in the order in which
the API server stored the changes, so what holds after each of them held at that moment, however short; and a watch that ends is
resumed from its last version, so nothing in between is missed. Devices with admin access or a share id are left out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType

from tests.e2e.kube import ApiRefused, Json, KubeApi

_PAUSE_S = 0.2
_WATCH_S = 10

Device = tuple[str, str, str]
"""Driver, pool, name."""


def read_devices(body: Json) -> frozenset[Device]:
    """What a claim has for itself."""
    results = body.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return frozenset(
        (each["driver"], each["pool"], each["device"])
        for each in results
        if not each.get("adminAccess") and not each.get("shareID")
    )


@dataclass(slots=True)
class Ledger:
    """Who has which device, event by event."""

    holders: dict[Device, dict[str, str]] = field(default_factory=dict)
    """For each device the claims that have it: names by uid."""
    devices_of: dict[str, frozenset[Device]] = field(default_factory=dict)
    doubles: list[str] = field(default_factory=list)
    """Every time that a device got a second claim, in words."""
    allocations: int = 0
    """How often a claim got an allocation that it had not."""
    allocated_at: dict[str, float] = field(default_factory=dict)
    """When a claim was first seen with its present allocation, by the steady clock, by uid."""

    def note(self, body: Json, *, is_gone: bool, now_s: float) -> None:
        """A claim as the API server has it now."""
        meta = body["metadata"]
        uid, name = meta["uid"], f"{meta['namespace']}/{meta['name']}"
        devices = frozenset() if is_gone else read_devices(body)
        before = self.devices_of.pop(uid, frozenset())
        if devices:
            self.devices_of[uid] = devices
        if devices != before:
            self.allocated_at.pop(uid, None)
            if devices:
                self.allocations += 1
                self.allocated_at[uid] = now_s
        for device in before - devices:
            self.holders.get(device, {}).pop(uid, None)
        for device in devices - before:
            holders = self.holders.setdefault(device, {})
            holders[uid] = name
            if len(holders) > 1:
                what = "/".join(device)
                self.doubles.append(f"{what} in {' and '.join(sorted(holders.values()))} at {meta['resourceVersion']}")

    def keep_only(self, uids: frozenset[str]) -> None:
        """After a list: what is not there is gone."""
        for uid in self.devices_of.keys() - uids:
            for device in self.devices_of.pop(uid):
                self.holders.get(device, {}).pop(uid, None)
            self.allocated_at.pop(uid, None)


class DoubleWatch:
    """Watches in a thread of its own from ``with`` to its end; ``check`` may be asked at any time."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._ledger = Ledger()
        self._version = ""
        self._gaps = 0
        self._is_over = threading.Event()
        self._is_listed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="double-watch", daemon=True)

    def __enter__(self) -> DoubleWatch:
        self._thread.start()
        if not self._is_listed.wait(30):
            raise RuntimeError("the watcher of claims got no list")
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        self._is_over.set()  # the thread ends with its watch, which may be silent for as long as that lasts

    @property
    def allocations(self) -> int:
        """How many allocations were seen to be made."""
        with self._lock:
            return self._ledger.allocations

    @property
    def doubles(self) -> tuple[str, ...]:
        """Every device that was in two claims at a time, in words."""
        with self._lock:
            return tuple(self._ledger.doubles)

    @property
    def gaps(self) -> int:
        """How often the watch lost its place, and listed anew: what was between is not known."""
        with self._lock:
            return self._gaps

    def allocated(self) -> Mapping[str, frozenset[Device]]:
        """The devices of each claim that has any, by uid."""
        with self._lock:
            return dict(self._ledger.devices_of)

    def allocated_at(self, uid: str) -> float | None:
        """When the claim's allocation was seen first, by the steady clock."""
        with self._lock:
            return self._ledger.allocated_at.get(uid)

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
            except ApiRefused as err:
                if err.status == 410:
                    self._version = ""
                self._is_over.wait(_PAUSE_S)

    def _list(self) -> None:
        answer = self._api.request("GET", self._api.path("ResourceClaim", None))
        with self._lock:
            self._gaps += self._is_listed.is_set()
            self._ledger.keep_only(frozenset(each["metadata"]["uid"] for each in answer["items"]))
            for each in answer["items"]:
                self._ledger.note(each, is_gone=False, now_s=time.monotonic())
        self._version = answer["metadata"]["resourceVersion"]
        self._is_listed.set()

    def _watch(self) -> None:
        for event in self._api.watch("ResourceClaim", None, version=self._version, seconds=_WATCH_S):
            if self._is_over.is_set():
                return
            if event["type"] == "ERROR":
                raise ApiRefused("WATCH", int(event["object"].get("code", 500)), str(event["object"].get("message")))
            body = event["object"]
            self._version = body["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                with self._lock:
                    self._ledger.note(body, is_gone=event["type"] == "DELETED", now_s=time.monotonic())
