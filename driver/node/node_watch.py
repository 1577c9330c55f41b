"""This node's own Node object, followed: who is to allocate its devices, and what the controller says of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from driver import log
from driver.api.fence import ALLOCATOR_KEY, DRAINED_ANNOTATION
from driver.errors import ApiError
from driver.kube.changes import Change, ChangeKind
from driver.kube.client import KubeClient
from driver.kube.resources import NODES, Node, Selection
from driver.kube.watch import Failed, Listed, Watcher

_LOG = log.logger(__name__)

_WATCH_AGAIN_S = 5.0
COUNTED_GPUS = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    """What the Node says. While it could not be read yet, ``trouble`` says why, and the rest means nothing."""

    uid: str = ""
    """Another one when the Node was deleted and made again under its name."""
    label: str | None = None
    """Of ``gpu.nvidia.com/allocator``; None where it has none."""
    acknowledged: str = ""
    counted_gpus: str = ""
    """How many ``nvidia.com/gpu`` a device plugin offers on this node; empty where none does."""
    trouble: str = "the Node object was not read yet"


class NodeWatch:
    """A thread that follows the Node; ``on_change`` is called there when something that matters is another."""

    def __init__(self, client: KubeClient, node_name: str, on_change: Callable[[], None]) -> None:
        self._node_name = node_name
        self._on_change = on_change
        self._watcher: Watcher[Node] = Watcher(client, NODES, Selection(field_selector=f"metadata.name={node_name}"))
        self._changed = threading.Condition()
        self._seen = NodeSeen()
        self._has_looked = False
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="node-watch", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """Follow no longer."""
        self._is_stopped = True
        self._watcher.stop()

    def read(self, wait_s: float = 0.0) -> NodeSeen:
        """What was seen last; the first look is waited for."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_looked, wait_s)
            return self._seen

    def _run(self) -> None:
        while not self._is_stopped:
            try:
                for seen in self._watcher.changes():
                    self._take(seen)
            except Exception as err:  # noqa: BLE001  the outermost frame of this thread: without it no label is seen again
                log.event(_LOG, log.ERROR, "watching the node failed as nobody expected; listing anew", error=err, exc=err)
                self._watcher.forget_version()
                with self._changed:
                    self._changed.wait_for(lambda: self._is_stopped, _WATCH_AGAIN_S)

    def _take(self, seen: Change[Node] | Listed | Failed) -> None:
        with self._changed:
            now = _note(self._seen, seen, self._node_name)
            is_news = now != self._seen or not self._has_looked
            self._seen, self._has_looked = now, True
            self._changed.notify_all()
        if is_news:
            self._on_change()


def _note(before: NodeSeen, seen: Change[Node] | Listed | Failed, node_name: str) -> NodeSeen:
    """What is known after this. What was read once stays while it cannot be read: nothing can be published then anyway."""
    match seen:
        case Change(kind=ChangeKind.DELETED):
            return NodeSeen(trouble=f"there is no Node {node_name}")
        case Change(item=node):
            meta = node.metadata
            label, acknowledged = meta.labels.get(ALLOCATOR_KEY), meta.annotations.get(DRAINED_ANNOTATION, "")
            counted = node.status.allocatable.get(COUNTED_GPUS, "0")
            return NodeSeen(
                uid=meta.uid,
                label=label,
                acknowledged=acknowledged,
                counted_gpus="" if counted == "0" else counted,
                trouble="",
            )
        case Listed(uids=uids):
            return before if uids else NodeSeen(trouble=f"there is no Node {node_name}")
        case Failed(error=error):
            return replace(before, trouble=_describe(error)) if before.trouble else before
    return before


def describe_device_plugin(seen: NodeSeen) -> str:
    """What is wrong where a device plugin gives out the GPUs of a node that has this driver."""
    return (
        f"a device plugin offers {COUNTED_GPUS}: {seen.counted_gpus} on this node: kubelet and claims would give out "
        "the same GPUs; take the device plugin or this driver away from the node (docs/migration.md)"
    )


def _describe(error: ApiError) -> str:
    return f"{error}; the plugin's account needs get, list and watch of nodes"
