"""What one plugin asks of the API server, by counting: the figures that docs/scale.md multiplies by 5,000."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from driver.kube.client import KubeClient
from driver.kube.resources import RESOURCE_SLICES, Selection
from driver.kube.watch import Watcher, WatchPace
from driver.names import PoolName
from driver.resourceslice.diff import PoolIdentity
from driver.resourceslice.publish import Publisher
from driver.resourceslice.publish_reports import PublisherReports
from driver.resourceslice.publisher_lock import FilePublisherLock
from tests.fakes.kube_api import FakeKubeApi
from tests.fakes.slices import content

NODES = 12
SOON_S = 30.0


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    with FakeKubeApi() as running:
        for number in range(NODES):
            running.create("nodes", {"metadata": {"name": f"node-{number}"}})
        yield running


def start_all(api: FakeKubeApi, folder: Path) -> list[Publisher]:
    """One publisher a node, all at once, until all have their pools in place."""
    publishers = []
    for number in range(NODES):
        name = f"node-{number}"
        publisher = Publisher(
            KubeClient(api.credentials()),
            PoolIdentity(driver="gpu.nvidia.com", node_name=name, pool=PoolName(name)),
            lock=FilePublisherLock(folder / f"{name}.lock"),
            reports=PublisherReports(say=lambda reason, text: None, refuse=lambda text: None),
            rng=random.Random(number),
        )
        publisher.start()
        publisher.publish([content("gpu-a", "gpu-b")])
        publishers.append(publisher)
    assert all(publisher.wait_published(SOON_S) for publisher in publishers)
    eventually(lambda: api.count("watch") >= NODES)
    return publishers


def stop_all(publishers: list[Publisher]) -> None:
    for publisher in publishers:
        publisher.stop()


def eventually(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON_S
    while not is_true():
        assert time.monotonic() < deadline, "did not become true"
        time.sleep(0.01)


def test_a_first_start_is_four_requests_a_node(api: FakeKubeApi, tmp_path: Path) -> None:
    stop_all(start_all(api, tmp_path))
    assert dict(api.requests) == {
        ("list", "resourceslices"): NODES,
        ("watch", "resourceslices"): NODES,
        ("get", "nodes"): NODES,
        ("create", "resourceslices"): NODES,
    }


def test_a_restart_of_all_is_two_requests_a_node_and_no_write(api: FakeKubeApi, tmp_path: Path) -> None:
    stop_all(start_all(api, tmp_path))
    api.forget_requests()
    stop_all(start_all(api, tmp_path))
    assert dict(api.requests) == {("list", "resourceslices"): NODES, ("watch", "resourceslices"): NODES}


def test_an_idle_fleet_asks_for_nothing(api: FakeKubeApi, tmp_path: Path) -> None:
    publishers = start_all(api, tmp_path)
    api.forget_requests()
    time.sleep(2.0)
    assert api.count() == 0
    stop_all(publishers)


def test_a_change_on_one_node_wakes_no_other(api: FakeKubeApi, tmp_path: Path) -> None:
    publishers = start_all(api, tmp_path)
    api.forget_requests()
    publishers[0].publish([content("gpu-a")])
    assert publishers[0].wait_published(SOON_S)
    time.sleep(0.5)
    assert dict(api.requests) == {("update", "resourceslices"): 1}
    stop_all(publishers)


def test_a_wipe_of_all_slices_is_two_requests_a_node(api: FakeKubeApi, tmp_path: Path) -> None:
    """All kubelets restart: a GET of the Node for its uid, and one create a slice."""
    publishers = start_all(api, tmp_path)
    api.forget_requests()
    api.delete_all("resourceslices")
    eventually(lambda: len(api.objects("resourceslices")) == NODES and all(each.wait_published(1) for each in publishers))
    assert dict(api.requests) == {("get", "nodes"): NODES, ("create", "resourceslices"): NODES}
    stop_all(publishers)


def test_when_the_server_comes_back_nothing_is_listed_or_written(api: FakeKubeApi, tmp_path: Path) -> None:
    """A watch resumes from its version: one request a node, at a moment of its own (``test_backoff`` has the spread)."""
    publishers = start_all(api, tmp_path)
    api.stop()
    time.sleep(0.2)
    api.forget_requests()
    api.start()
    eventually(lambda: api.count("watch") >= NODES)
    assert (api.count("list"), api.writes()) == (0, 0)
    stop_all(publishers)


def test_a_watch_that_ends_is_renewed_by_one_request(api: FakeKubeApi) -> None:
    """One second stands for the ten to twenty minutes of a real watch: an hour is three to six renewals, and nothing else."""
    selection = Selection(field_selector="spec.driver=gpu.nvidia.com,spec.nodeName=node-0")
    watcher = Watcher(KubeClient(api.credentials()), RESOURCE_SLICES, selection, pace=WatchPace(open_s=(1, 1)))
    thread = threading.Thread(target=lambda: list(watcher.changes()), daemon=True)
    thread.start()
    eventually(lambda: api.count("watch") >= 4)
    watcher.stop()
    thread.join(SOON_S)
    assert (api.count("list"), api.count() - api.count("watch")) == (1, 1)
