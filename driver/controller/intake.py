"""Everything that is watched, as one row of values for the decision thread."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from driver import log
from driver.controller.books.volumes import VOLUME_CLAIMS, VOLUMES
from driver.controller.objects.model import CLAIMS, CLASSES, NODES, PODS
from driver.controller.objects.reductions import ClaimReduction, NodeReduction, PodReduction, reduce_class
from driver.controller.objects.slice_reduction import SliceReduction
from driver.controller.objects.taint_rules import OLDER_TAINT_RULES, TAINT_RULES
from driver.controller.writing.writer import Report
from driver.errors import NotFound
from driver.kube.client import KubeClient
from driver.kube.resources import EVERYTHING, RESOURCE_SLICES, Resource, Selection
from driver.kube.watch import Failed, Listed, Seen, Watcher

_LOG = log.logger(__name__)
_STOP_S = 2.0
_ASK_AGAIN_S = 60.0
"""For rules that are not served: an upgrade brings them, and an API server that starts denies them for a while."""


class Source(enum.Enum):
    """What is watched, in the order in which it is best learned: a claim means most where its pods and nodes are known."""

    CLASSES = "deviceclasses"
    RULES = "devicetaintrules"
    NODES = "nodes"
    VOLUMES = "persistentvolumes"
    VOLUME_CLAIMS = "persistentvolumeclaims"
    SLICES = "resourceslices"
    CLAIMS = "resourceclaims"
    PODS = "pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Something that a watch said."""

    source: Source
    seen: Seen[Any]


class Stop(enum.Enum):
    """The last value there is."""

    STOP = "stop"


Message: TypeAlias = Told | Report | Stop
RESOURCES: Mapping[Source, Resource[Any]] = {
    Source.CLASSES: CLASSES,
    Source.RULES: TAINT_RULES,
    Source.NODES: NODES,
    Source.VOLUMES: VOLUMES,
    Source.VOLUME_CLAIMS: VOLUME_CLAIMS,
    Source.SLICES: RESOURCE_SLICES,
    Source.CLAIMS: CLAIMS,
    Source.PODS: PODS,
}


def build_reductions() -> Mapping[Source, Callable[[Any], Any]]:
    """How objects are made smaller as soon as they come. Each is one watch's own."""
    return {
        Source.CLASSES: reduce_class,
        Source.NODES: NodeReduction(),
        Source.SLICES: SliceReduction(),
        Source.CLAIMS: ClaimReduction(),
        Source.PODS: PodReduction(),
    }


class Intake:
    """A watcher and a thread for each source, in which ``put`` is called, and ``on_failure`` where one of them broke."""

    def __init__(
        self, driver: str, client: KubeClient, put: Callable[[Message], None], on_failure: Callable[[Exception], None]
    ) -> None:
        self._put = put
        self._on_failure = on_failure
        self._client = client
        reductions = build_reductions()
        self._watchers = {
            source: Watcher(client, resource, _select(source, driver), reduce=reductions.get(source))
            for source, resource in RESOURCES.items()
        }
        self._older_rules = Watcher(client, OLDER_TAINT_RULES, EVERYTHING)
        self._is_stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(source,), name=f"watch-{source.value}", daemon=True)
            for source in RESOURCES
        ]

    def start(self) -> None:
        """List and watch. Each list is consistent: it is asked for without a resourceVersion."""
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """End. A list that hangs is not waited for: what is written must still be finished in time."""
        self._is_stopped.set()
        for watcher in (*self._watchers.values(), self._older_rules):
            watcher.stop()
        ends_at_s = time.monotonic() + _STOP_S
        for each in self._threads:
            if each.ident is not None:
                each.join(max(0.0, ends_at_s - time.monotonic()))
        self._client.close()

    def _run(self, source: Source) -> None:
        try:
            if source is Source.RULES:
                self._run_rules()
            else:
                for seen in self._watchers[source].changes():
                    self._put(Told(source=source, seen=seen))
        except Exception as err:  # noqa: BLE001  the outermost loop of a thread: the process must not go on half blind
            self._on_failure(err)

    def _run_rules(self) -> None:
        """In the version that is served; where none is there are no rules."""
        is_told = False
        while not self._is_stopped.is_set():
            for watcher in (self._watchers[Source.RULES], self._older_rules):
                for seen in watcher.changes():
                    if isinstance(seen, Failed) and isinstance(seen.error, NotFound):
                        break
                    self._put(Told(source=Source.RULES, seen=seen))
            self._put(Told(source=Source.RULES, seen=Listed(resource_version="", uids=frozenset())))
            if not is_told:
                log.event(_LOG, log.INFO, "DeviceTaintRules are not served here", asked_again_in_s=_ASK_AGAIN_S)
                is_told = True
            self._is_stopped.wait(_ASK_AGAIN_S)


def _select(source: Source, driver: str) -> Selection:
    """Other drivers' devices are never placed."""
    return Selection(field_selector=f"spec.driver={driver}") if source is Source.SLICES else EVERYTHING
