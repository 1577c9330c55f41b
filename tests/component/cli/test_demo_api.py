"""The demo's API server, asked by the program's own client."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import ResourcePool, ResourceSlice, ResourceSliceSpec
from driver.cli.demo.api import MemoryApi, Target
from driver.errors import Conflict, NotFound
from driver.kube.changes import Change, ChangeKind
from driver.kube.client import KubeClient, Preconditions
from driver.kube.credentials import Credentials, Endpoint, FixedHeader
from driver.kube.resources import NODES, RESOURCE_SLICES, Selection
from driver.kube.watch import Listed, Watcher


@pytest.fixture
def api() -> Iterator[MemoryApi]:
    with MemoryApi() as server:
        yield server


@pytest.fixture
def client(api: MemoryApi) -> Iterator[KubeClient]:
    credentials = Credentials(endpoint=Endpoint(server=api.url), authorization=FixedHeader(None), source="a test")
    client = KubeClient(credentials)
    yield client
    client.close()


def _slice(node: str) -> ResourceSlice:
    pool = ResourcePool(name=node, generation=1, resource_slice_count=1)
    return ResourceSlice(
        metadata=ObjectMeta(generate_name=f"00000-{node}-"), spec=ResourceSliceSpec(driver="d", node_name=node, pool=pool)
    )


def test_an_object_has_a_name_a_uid_and_a_version(client: KubeClient) -> None:
    made = client.create(RESOURCE_SLICES, _slice("a"))
    assert made.metadata.name.startswith("00000-a-")
    assert made.metadata.uid
    assert client.get(RESOURCE_SLICES, made.metadata.name) == made


def test_what_is_not_there_is_not_found(client: KubeClient) -> None:
    with pytest.raises(NotFound, match='nodes "a" not found'):
        client.get(NODES, "a")


def test_the_same_name_twice_is_a_conflict(api: MemoryApi, client: KubeClient) -> None:
    made = client.create(RESOURCE_SLICES, _slice("a"))
    named = ResourceSlice(metadata=ObjectMeta(name=made.metadata.name), spec=made.spec)
    with pytest.raises(Conflict):
        client.create(RESOURCE_SLICES, named)


def test_a_list_is_of_one_node(client: KubeClient) -> None:
    kept = client.create(RESOURCE_SLICES, _slice("a"))
    client.create(RESOURCE_SLICES, _slice("b"))
    assert client.list_all(RESOURCE_SLICES, Selection(field_selector="spec.nodeName=a,spec.driver=d")).items == (kept,)


def test_an_old_version_is_not_written(client: KubeClient) -> None:
    first = client.create(RESOURCE_SLICES, _slice("a"))
    client.replace(RESOURCE_SLICES, first)
    with pytest.raises(Conflict, match="has been modified"):
        client.replace(RESOURCE_SLICES, first)


def test_a_delete_is_of_the_object_that_is_meant(client: KubeClient) -> None:
    made = client.create(RESOURCE_SLICES, _slice("a"))
    with pytest.raises(Conflict):
        client.delete(RESOURCE_SLICES, made.metadata, preconditions=Preconditions(uid="another"))
    client.delete(RESOURCE_SLICES, made.metadata, preconditions=Preconditions(uid=made.metadata.uid))
    with pytest.raises(NotFound):
        client.get(RESOURCE_SLICES, made.metadata.name)


def test_a_watch_tells_every_change_of_its_selection(client: KubeClient) -> None:
    watcher = Watcher(client, RESOURCE_SLICES, Selection(field_selector="spec.nodeName=a"))
    seen: list[tuple[ChangeKind, str]] = []
    listed, enough = threading.Event(), threading.Event()

    def read() -> None:
        for each in watcher.changes():
            if isinstance(each, Listed):
                listed.set()
            if isinstance(each, Change):
                seen.append((each.kind, each.item.spec.pool.name))
                if each.kind is ChangeKind.DELETED:
                    enough.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert listed.wait(20)  # an object that came and went before the first list is nobody's change
    made = client.create(RESOURCE_SLICES, _slice("a"))
    client.create(RESOURCE_SLICES, _slice("b"))
    client.replace(RESOURCE_SLICES, made)
    client.delete(RESOURCE_SLICES, made.metadata)
    assert enough.wait(20)
    watcher.stop()
    thread.join(20)
    assert seen == [(ChangeKind.ADDED, "a"), (ChangeKind.MODIFIED, "a"), (ChangeKind.DELETED, "a")]


def test_a_merge_patch_changes_what_it_names(api: MemoryApi, client: KubeClient) -> None:
    api.store.create("nodes", {"metadata": {"name": "n"}, "a": {"b": 1, "c": 2}})
    client.patch(NODES, ObjectMeta(name="n"), {"a": {"b": None, "d": 3}})
    assert api.store.get(Target("nodes", "", "n"))["a"] == {"c": 2, "d": 3}


def test_the_server_ends_while_somebody_watches() -> None:
    with MemoryApi() as server:
        credentials = Credentials(endpoint=Endpoint(server=server.url), authorization=FixedHeader(None), source="a test")
        client = KubeClient(credentials)
        stream = client.open_watch(RESOURCE_SLICES, Selection(), resource_version="0", timeout_s=60)
    assert list(stream.lines()) == []
    stream.close()
    client.close()
