"""What a watch tells, and the publisher on top of it: the same for the fake and the real server."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from driver.api.resource_v1 import ResourceSlice
from driver.kube.changes import Change
from driver.kube.resources import RESOURCE_SLICES
from driver.kube.watch import Seen, Watcher
from driver.resourceslice.publish import Publisher
from driver.resourceslice.publish_reports import PublisherReports
from driver.resourceslice.publisher_lock import FilePublisherLock
from tests.contract.kube.conftest import Cluster
from tests.fakes.slices import content

A, B, C = content("gpu-a"), content("gpu-b"), content("gpu-c")
SOON_S = 20.0


@pytest.fixture
def seen(cluster: Cluster) -> Iterator[queue.Queue[Seen[ResourceSlice]]]:
    """What a watcher says, from now on."""
    told: queue.Queue[Seen[ResourceSlice]] = queue.Queue()
    watcher = Watcher(cluster.client, RESOURCE_SLICES, cluster.selection, rng=random.Random(1))

    def read() -> None:
        for each in watcher.changes():
            told.put(each)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    yield told
    watcher.stop()
    thread.join(SOON_S)
    assert not thread.is_alive()


def words(told: queue.Queue[Seen[ResourceSlice]], count: int) -> list[str]:
    found = [told.get(timeout=SOON_S) for _ in range(count)]
    return [each.kind.value if isinstance(each, Change) else type(each).__name__.lower() for each in found]


def eventually(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON_S
    while not is_true():
        assert time.monotonic() < deadline, "did not become true"
        time.sleep(0.02)


def test_an_object_is_added_modified_and_deleted(cluster: Cluster, seen: queue.Queue[Seen[ResourceSlice]]) -> None:
    assert words(seen, 1) == ["listed"]
    made = cluster.client.create(RESOURCE_SLICES, cluster.slice_(A))
    changed = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, devices=B.devices))
    stored = cluster.client.replace(RESOURCE_SLICES, changed)
    cluster.client.delete(RESOURCE_SLICES, stored.metadata)
    changes = [seen.get(timeout=SOON_S) for _ in range(3)]
    assert [each.kind.value for each in changes if isinstance(each, Change)] == ["added", "modified", "deleted"]
    versions = [int(each.item.metadata.resource_version) for each in changes if isinstance(each, Change)]
    assert versions[:2] == [int(made.metadata.resource_version), int(stored.metadata.resource_version)]
    assert versions[2] > versions[1], "a deletion has a version of its own"


def test_a_wipe_is_a_deletion_of_each(cluster: Cluster, seen: queue.Queue[Seen[ResourceSlice]]) -> None:
    assert words(seen, 1) == ["listed"]
    for index, held in enumerate((A, B)):
        cluster.client.create(RESOURCE_SLICES, cluster.slice_(held, index=index))
    assert words(seen, 2) == ["added", "added"]
    cluster.wipe()
    assert words(seen, 2) == ["deleted", "deleted"]


def test_a_watch_ends_in_peace_when_its_time_is_over(cluster: Cluster) -> None:
    version = cluster.client.list_all(RESOURCE_SLICES, cluster.selection).resource_version
    stream = cluster.client.open_watch(RESOURCE_SLICES, cluster.selection, resource_version=version, timeout_s=1)
    assert all(b'"BOOKMARK"' in line for line in stream.lines())
    stream.close()


def start(cluster: Cluster, folder: Path) -> Publisher:
    publisher = Publisher(
        cluster.client,
        cluster.identity,
        lock=FilePublisherLock(folder / "publish.lock"),
        reports=PublisherReports(say=lambda reason, text: None, refuse=lambda text: None),
    )
    publisher.start()
    return publisher


def pool(cluster: Cluster) -> list[list[str]]:
    items = cluster.client.list_all(RESOURCE_SLICES, cluster.selection).items
    return [[each.name for each in item.spec.devices] for item in items]


def test_a_published_pool_survives_restarts_wipes_and_changes(cluster: Cluster, tmp_path: Path) -> None:
    first = start(cluster, tmp_path)
    first.publish([A, B])
    assert first.wait_published(SOON_S), first.status()
    first.stop()
    before = cluster.client.list_all(RESOURCE_SLICES, cluster.selection).items
    assert [item.metadata.owner_references[0].name for item in before] == [cluster.identity.node_name] * 2

    second = start(cluster, tmp_path)
    second.publish([A, B])
    assert second.wait_published(SOON_S)
    assert cluster.client.list_all(RESOURCE_SLICES, cluster.selection).items == before, "a restart writes nothing"

    for _ in range(3):
        cluster.wipe()
        eventually(lambda: pool(cluster) == [["gpu-a"], ["gpu-b"]])
    second.publish([A, C])
    assert second.wait_published(SOON_S)
    assert pool(cluster) == [["gpu-a"], ["gpu-c"]]
    second.publish([C])
    assert second.wait_published(SOON_S)
    assert pool(cluster) == [["gpu-c"]]
    second.stop()
