"""An independent eye on a node's slices, which sees every state that they were ever published in.

The events of a watch come in the order in which the API server stored the changes: what kube-scheduler could have seen for a
moment, this sees.
"""

from __future__ import annotations

import threading
from types import TracebackType

from tests.e2e import objects
from tests.e2e.kube import ApiRefused, Json, KubeApi

KEY = "gpu.nvidia.com/allocator"
_WATCH_S = 30
_PAUSE_S = 0.2


def read_side(device: Json) -> str:
    """Whose a device is; both words where the taint says something else than the attribute."""
    said = str(objects.attribute(device, "allocator"))
    taints = [taint for taint in device.get("taints", []) if taint["key"] == KEY]
    fence = taints[0]["value"] if taints else "scheduler"
    return said if said == fence else f"{said}, with the taint of {fence}"


class SideWatch:
    """Follows one pool from ``with`` to its end."""

    def __init__(self, api: KubeApi, pool_query: str) -> None:
        self._api = api
        self._query = pool_query
        self._lock = threading.Lock()
        self._sides: list[str] = []
        self._is_over = threading.Event()
        self._version = ""
        self._thread = threading.Thread(target=self._run, name="side-watch", daemon=True)

    def __enter__(self) -> SideWatch:
        answer = self._api.request("GET", self._api.path("ResourceSlice", None) + f"?{self._query}")
        self._version = answer["metadata"]["resourceVersion"]
        for each in answer["items"]:
            self._note(each)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join(2 * _WATCH_S)

    @property
    def sides(self) -> tuple[str, ...]:
        """Whose the devices were, one after the other. Devices of one slice that differ are two entries in a row."""
        with self._lock:
            return tuple(self._sides)

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                for event in self._api.watch("ResourceSlice", None, version=self._version, seconds=_WATCH_S, query=self._query):
                    if self._is_over.is_set():
                        return
                    if event["type"] == "ERROR":
                        raise ApiRefused("WATCH", int(event["object"].get("code", 500)), str(event["object"].get("message")))
                    self._version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] in {"ADDED", "MODIFIED"}:
                        self._note(event["object"])
            except ApiRefused:
                self._is_over.wait(_PAUSE_S)

    def _note(self, body: Json) -> None:
        for side in sorted({read_side(device) for device in body["spec"].get("devices", [])}):
            with self._lock:
                if not self._sides or self._sides[-1] != side:
                    self._sides.append(side)
