"""The cluster, read once into the same values that the controller decides by."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from driver.allocator.hold import HoldRule, Holds
from driver.cli.controller import HOLD_AFTER_S, HOLD_PATIENCE_S
from driver.controller.books.mirror import Cluster
from driver.controller.books.volumes import VOLUME_CLAIMS, VOLUMES
from driver.controller.deciding.decision import build_waiting
from driver.controller.deciding.question import Question, build_question
from driver.controller.objects.model import CLAIMS, CLASSES, NODES, PODS, Lean, NodeMeta, Pod
from driver.controller.objects.taint_rules import OLDER_TAINT_RULES, TAINT_RULES
from driver.errors import ApiError, Forbidden, NotFound
from driver.kube.changes import Change, ChangeKind
from driver.kube.client import KubeClient
from driver.kube.resources import RESOURCE_SLICES, KubeObject, Resource, Selection

T = TypeVar("T", bound=KubeObject)


class _EventSeries(Lean, frozen=True, kw_only=True):
    last_observed_time: str = ""


class _EventSource(Lean, frozen=True, kw_only=True):
    component: str = ""


class SeenEvent(Lean, frozen=True, kw_only=True):
    """An event of anybody's: those of the older form have their time and their source elsewhere."""

    metadata: NodeMeta
    event_time: str | None = None
    series: _EventSeries | None = None
    deprecated_last_timestamp: str | None = None
    deprecated_source: _EventSource = _EventSource()
    reporting_controller: str = ""
    reason: str = ""
    note: str = ""

    @property
    def time(self) -> str:
        """When it happened last, RFC 3339; empty where it is not told."""
        return (
            (self.series.last_observed_time if self.series else "") or self.event_time or self.deprecated_last_timestamp or ""
        )

    @property
    def reporter(self) -> str:
        """Who says it."""
        return self.reporting_controller or self.deprecated_source.component


_EVENTS = Resource(group_version="events.k8s.io/v1", plural="events", type_=SeenEvent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read."""

    cluster: Cluster
    pods: Mapping[tuple[str, str], Pod]
    """All of them, by namespace and name: the cluster keeps only those with claims."""
    notes: tuple[str, ...] = ()
    """What could not be read, and what follows from that."""
    holds: Holds | None = None
    """The node that is held for a large claim that starves, if the controller does that."""


def read_cluster(client: KubeClient, driver: str, schedulers: frozenset[str]) -> Reading:
    """List everything that a decision depends on.

    Raises:
        ApiError: the cluster does not answer, or does not let us list what nothing can be said without.
    """
    cluster = Cluster(driver, schedulers=schedulers)
    notes: list[str] = []
    tell(_list(client, CLASSES), cluster.note_class)
    without = "taints of rules are not seen"
    tell(_list_if_served(client, TAINT_RULES, without, notes, older=OLDER_TAINT_RULES), cluster.note_rule)
    tell(_list(client, NODES), cluster.note_node)
    _read_volumes(client, cluster, notes)
    tell(_list(client, RESOURCE_SLICES), cluster.note_slice)
    tell(_list(client, CLAIMS), cluster.note_claim)
    pods = _list(client, PODS)
    tell(pods, cluster.note_pod)
    by_name = {pod.metadata.key: pod for pod in pods}
    return Reading(cluster=cluster, pods=by_name, notes=tuple(notes))


def hold_nodes(reading: Reading, now_s: float) -> Reading:
    """With what a controller would hold that came to it now. One that has held for a while may hold another node."""
    cluster = reading.cluster
    holds = Holds(HoldRule(after_s=HOLD_AFTER_S, hold_patience_s=HOLD_PATIENCE_S))
    questions = (build_question(demand, cluster.judge) for demand in cluster.demands())
    waiting = [build_waiting(cluster, each, now_s) for each in questions if isinstance(each, Question)]
    holds.update(cluster.fleet, waiting)
    return replace(reading, holds=holds)


def read_events(client: KubeClient, namespace: str, uids: Collection[str]) -> tuple[SeenEvent, ...]:
    """The events about these objects, the newest first; none where they may not be read."""
    found: list[SeenEvent] = []
    for uid in uids:
        selection = Selection(namespace=namespace, field_selector=f"regarding.uid={uid}")
        try:
            found += client.list_all(_EVENTS, selection).items
        except (Forbidden, NotFound):
            return ()
    return tuple(sorted(found, key=lambda each: each.time, reverse=True))


def _read_volumes(client: KubeClient, cluster: Cluster, notes: list[str]) -> None:
    without = "what they bind pods to is not looked at"
    before = len(notes)
    tell(_list_if_served(client, VOLUMES, without, notes), cluster.note_volume)
    tell(_list_if_served(client, VOLUME_CLAIMS, without, notes), cluster.note_volume_claim)
    if len(notes) == before:
        cluster.volumes.note_listed(claims=True, volumes=True)


def _list(client: KubeClient, resource: Resource[T]) -> Sequence[T]:
    return list_needed(
        client,
        resource,
        f"to say what fits where, {resource.plural} of the whole cluster must be listed: "
        f"kubectl auth can-i list {resource.plural} --all-namespaces",
    )


def list_needed(client: KubeClient, resource: Resource[T], need: str) -> Sequence[T]:
    """All objects of a kind without which nothing can be said; ``need`` says so where they may not be listed.

    Raises:
        ApiError
    """
    try:
        return client.list_all(resource).items
    except Forbidden as err:
        if err.status == 401:  # no right would mend that
            raise
        raise Forbidden(err.request, err.status, f"{err.message}; {need}") from err


def _list_if_served(
    client: KubeClient, resource: Resource[T], without: str, notes: list[str], *, older: Resource[T] | None = None
) -> Sequence[T]:
    try:
        return client.list_all(resource).items
    except NotFound:
        return () if older is None else _list_if_served(client, older, without, notes)
    except Forbidden as err:
        notes.append(f"{resource.plural} may not be listed ({_first_words(err)}): {without}")
        return ()


def _first_words(err: ApiError) -> str:
    return f"{err.status} {err.message.partition(':')[0]}".strip()


def tell(items: Sequence[T], note: Callable[[Change[Any]], object]) -> None:
    """Each of them has come."""
    for item in items:
        note(Change(kind=ChangeKind.ADDED, item=item))
