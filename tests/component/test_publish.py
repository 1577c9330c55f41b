"""The publisher against a server: what is there after each thing that happens to a node, and how much was asked for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from driver.api.resource_v1 import Device, Taint
from driver.kube.client import KubeClient
from driver.names import PoolName
from driver.resourceslice.content import SliceContent
from driver.resourceslice.diff import PoolIdentity
from driver.resourceslice.pace import PaceSettings
from driver.resourceslice.publish import Publisher
from driver.resourceslice.publish_reports import PublisherReports, PublishState
from driver.resourceslice.publisher_lock import FilePublisherLock
from tests.fakes.kube_api import FakeKubeApi, Fault
from tests.fakes.publishing_node import SOON_S, Json, PublishingNode, eventually
from tests.fakes.slices import IDENTITY, as_json, content, device, existing

A, B, C = content("gpu-a"), content("gpu-b"), content("gpu-c")


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    with FakeKubeApi() as running:
        running.create("nodes", {"metadata": {"name": "node-a"}})
        yield running


@pytest.fixture
def node(api: FakeKubeApi, tmp_path: Path) -> Iterator[PublishingNode]:
    made = PublishingNode(api, tmp_path)
    yield made
    for publisher in made.publishers:
        publisher.stop()


def test_the_first_publication_creates_slices_owned_by_the_node(api: FakeKubeApi, node: PublishingNode) -> None:
    before = int(time.time())
    publisher = node.start([A, B])
    assert node.pool() == [["gpu-a"], ["gpu-b"]]
    assert before <= node.generation() <= time.time()
    first = api.objects("resourceslices")[0]
    uid = api.objects("nodes")[0]["metadata"]["uid"]
    assert first["metadata"]["generateName"] == "00000-gpu.nvidia.com-node-a-"
    assert first["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": uid, "controller": True}
    ]
    assert first["spec"]["pool"] == {"name": "node-a", "generation": node.generation(), "resourceSliceCount": 2}
    status = publisher.status()
    assert (status.state, status.slices, status.devices) == (PublishState.PUBLISHED, 2, 2)
    assert status.generation == node.generation()


def test_a_restart_with_the_same_content_writes_nothing(api: FakeKubeApi, node: PublishingNode) -> None:
    node.start([A, B]).stop()
    api.forget_requests()
    node.start([A, B])
    assert api.writes() == 0
    assert (api.count("list"), api.count("get")) == (1, 0)


def test_a_restart_writes_nothing_when_the_server_wrote_quantities_and_times_its_own_way(
    api: FakeKubeApi, node: PublishingNode
) -> None:
    taint = Taint(key="gpu.nvidia.com/ecc", effect="NoSchedule")
    wanted = [SliceContent(devices=(device("gpu-a", memory="81920Mi", taints=(taint,)),))]
    node.start(wanted).stop()
    stored = api.objects("resourceslices")[0]["spec"]["devices"][0]
    assert (stored["capacity"]["memory"]["value"], "timeAdded" in stored["taints"][0]) == ("80Gi", True)
    api.forget_requests()
    node.start(wanted)
    assert api.writes() == 0


def test_nothing_is_written_before_there_is_something_to_publish(api: FakeKubeApi, node: PublishingNode) -> None:
    """The driver may still be being installed (B31): no empty slice replaces a good one."""
    node.start([A]).stop()
    api.forget_requests()
    publisher = node.start()
    time.sleep(0.3)
    assert (api.writes(), publisher.status().state) == (0, PublishState.WAITING)
    assert node.pool() == [["gpu-a"]]


def test_the_same_content_again_asks_nothing_of_the_server(api: FakeKubeApi, node: PublishingNode) -> None:
    publisher = node.start([A])
    eventually(lambda: api.count("watch") == 1)
    before = api.count()
    publisher.publish([A])
    assert publisher.wait_published(SOON_S)
    time.sleep(0.2)
    assert api.count() == before


def test_one_changed_device_is_one_update_in_the_same_generation(api: FakeKubeApi, node: PublishingNode) -> None:
    publisher = node.start([A, B])
    api.forget_requests()
    before = node.generation()
    publisher.publish([A, C])
    assert publisher.wait_published(SOON_S)
    assert (node.pool(), node.generation(), api.writes(), api.count("update")) == ([["gpu-a"], ["gpu-c"]], before, 1, 1)


def test_a_node_without_devices_has_one_empty_slice(node: PublishingNode) -> None:
    node.start([])
    assert node.pool() == [[]]


@pytest.mark.parametrize("delay_s", [0.0, 0.2], ids=["at once", "a moment later"])
def test_slices_that_the_kubelet_wiped_are_back_at_once_three_times_in_a_row(
    api: FakeKubeApi, node: PublishingNode, delay_s: float
) -> None:
    """B28: they took 30 to 58 seconds elsewhere. The generation goes on."""
    node.start([A, B])
    for _ in range(3):
        time.sleep(delay_s)
        before = node.generation()
        began = time.monotonic()
        assert api.delete_all("resourceslices") == 2
        eventually(lambda: node.pool() == [["gpu-a"], ["gpu-b"]])
        assert time.monotonic() - began < 5, "2 seconds on a quiet machine"
        assert node.generation() > before


def test_a_slice_deleted_before_the_answer_to_its_creation_is_back_too(api: FakeKubeApi, node: PublishingNode) -> None:
    publisher = node.start()
    eventually(lambda: api.count("watch") == 1)
    publisher.publish([A])
    eventually(lambda: api.delete_all("resourceslices") == 1)
    eventually(lambda: node.pool() == [["gpu-a"]])


def test_slices_wiped_while_the_watch_was_away_are_back_after_the_next_list(api: FakeKubeApi, node: PublishingNode) -> None:
    node.start([A])
    api.stop()
    api.delete_all("resourceslices")
    api.compact()
    api.start()
    eventually(lambda: node.pool() == [["gpu-a"]])


def test_a_foreign_change_is_put_right(api: FakeKubeApi, node: PublishingNode) -> None:
    node.start([A])

    def change(body: Json) -> Json:
        body["spec"]["devices"] = []
        return body

    api.edit("resourceslices", api.objects("resourceslices")[0]["metadata"]["name"], change)
    eventually(lambda: node.pool() == [["gpu-a"]])


def test_a_second_slice_of_the_same_index_goes(api: FakeKubeApi, node: PublishingNode) -> None:
    node.start([A])
    api.create("resourceslices", as_json(existing(0, B, name="00000-zzz")))
    eventually(lambda: node.pool() == [["gpu-a"]])


def test_somebody_who_edits_without_end_gets_an_answer_every_few_seconds(api: FakeKubeApi, node: PublishingNode) -> None:
    node.start([A], pace=PaceSettings(burst=3, refill_s=1.0))
    api.forget_requests()
    deadline = time.monotonic() + 3.0
    while time.monotonic() < deadline:
        for item in api.objects("resourceslices"):
            api.edit("resourceslices", item["metadata"]["name"], lambda body: body | {"spec": body["spec"] | {"devices": []}})
        time.sleep(0.02)
    assert 3 <= api.writes() <= 25
    assert len(api.objects("resourceslices")) == 1


def test_a_conflict_is_read_again_and_put_right(api: FakeKubeApi, node: PublishingNode) -> None:
    """The watch lags: our knowledge is old when we write."""
    publisher = node.start([A])
    eventually(lambda: api.count("watch") == 1)
    api.fail(Fault(verb="update", status=409, reason="Conflict"))
    publisher.publish([B])
    assert publisher.wait_published(SOON_S)
    assert (node.pool(), api.count("update")) == ([["gpu-b"]], 2)


def test_the_server_may_be_away_at_the_start(api: FakeKubeApi, node: PublishingNode) -> None:
    api.stop()
    publisher = node.start()
    publisher.publish([A])
    assert not publisher.wait_published(0.3)
    assert not publisher.is_published()
    eventually(lambda: publisher.status().error != "")
    api.start()
    assert publisher.wait_published(SOON_S)
    assert node.pool() == [["gpu-a"]]


def test_a_registration_compares_again_without_writing(api: FakeKubeApi, node: PublishingNode) -> None:
    publisher = node.start([A])
    before = api.count()
    publisher.resync()
    assert publisher.wait_published(SOON_S)
    assert api.count() - before <= 1  # the watch may open in this moment


def test_of_two_instances_only_the_newest_writes(api: FakeKubeApi, node: PublishingNode) -> None:
    """A rolling update (R3): the old one, told of a wipe as well, must not bring its content back."""
    old = node.start([A])
    newest = node.start([B])
    assert node.pool() == [["gpu-b"]]
    for _ in range(3):
        api.delete_all("resourceslices")
        eventually(lambda: node.pool() == [["gpu-b"]])
    old.publish([C])
    old.resync()
    time.sleep(0.3)
    assert (node.pool(), old.status().state) == ([["gpu-b"]], PublishState.YIELDED)
    assert old.is_published()
    newest.stop()
    old.resync()
    eventually(lambda: node.pool() == [["gpu-c"]])


def test_what_is_not_allowed_is_not_written_and_the_next_content_is_asked_about_anew(api: FakeKubeApi, tmp_path: Path) -> None:
    """R3: an older instance must not put back what a newer one has decided otherwise. What is in place is not asked about."""
    asked: list[tuple[SliceContent, ...]] = []
    settled = threading.Event()

    def allows(contents: Sequence[SliceContent]) -> bool:
        asked.append(tuple(contents))
        return A not in contents

    publisher = Publisher(
        KubeClient(api.credentials(), timeout_s=5.0),
        IDENTITY,
        lock=FilePublisherLock(tmp_path / "publish.lock"),
        reports=PublisherReports(say=lambda *_: None, refuse=lambda _: None, settled=settled.set, allows=allows),
    )
    try:
        publisher.start()
        publisher.publish([A])
        eventually(lambda: asked == [(A,)] and publisher.status().error != "")
        assert publisher.status().state is PublishState.WAITING
        assert (api.writes(), publisher.read_settled(), settled.is_set()) == (0, None, False)
        publisher.publish([B])
        assert publisher.wait_published(SOON_S)
        assert settled.wait(SOON_S)
        assert asked == [(A,), (B,)]
        publisher.resync()
        assert publisher.wait_published(SOON_S)
        assert asked == [(A,), (B,)]
    finally:
        publisher.stop()


def test_what_is_settled_is_told_as_asked_and_as_stored(node: PublishingNode) -> None:
    """They differ where the server drops a field: a fence without its taint is none."""
    taint = Taint(key="example.com/a", effect="NoSchedule", time_added="2026-12-02T01:00:00Z")
    tainted = SliceContent(devices=(device("gpu-a", taints=(taint,)),))
    publisher = node.start([tainted, B])
    settled = publisher.read_settled()
    assert settled is not None
    assert settled.asked == settled.stored == (*tainted.devices, *B.devices)
    node.api.store.gates_off = frozenset({"DRADeviceTaints"})
    node.api.delete_all("resourceslices")
    eventually(lambda: [device.taints for device in _stored(publisher)] == [(), ()])
    settled = publisher.read_settled()
    assert settled is not None
    assert settled.asked == (*tainted.devices, *B.devices)


def test_a_newer_instances_slices_are_not_settled_by_our_hand(node: PublishingNode) -> None:
    old = node.start([A])
    node.start([B])
    old.publish([B])
    eventually(lambda: old.status().state is PublishState.YIELDED)
    assert old.read_settled() is None


def _stored(publisher: Publisher) -> tuple[Device, ...]:
    settled = publisher.read_settled()
    return () if settled is None else settled.stored


def test_a_node_with_a_very_long_name_gets_legal_slices(api: FakeKubeApi, tmp_path: Path) -> None:
    """B29: dots and 253 characters."""
    name = ".".join(["n" * 62] * 4)
    api.create("nodes", {"metadata": {"name": name}})
    publisher = Publisher(
        KubeClient(api.credentials()),
        PoolIdentity(driver="gpu.nvidia.com", node_name=name, pool=PoolName(name)),
        lock=FilePublisherLock(tmp_path / "publish.lock"),
        reports=PublisherReports(say=lambda reason, text: None, refuse=lambda text: None),
    )
    publisher.start()
    publisher.publish([A])
    assert publisher.wait_published(SOON_S)
    (item,) = api.objects("resourceslices")
    assert (item["spec"]["pool"]["name"], len(item["metadata"]["name"]) <= 63) == (name, True)
    publisher.stop()


def test_stop_ends_both_threads_and_leaves_the_slices(api: FakeKubeApi, node: PublishingNode) -> None:
    publisher = node.start([A])
    began = time.monotonic()
    publisher.stop()
    assert time.monotonic() - began < 2
    assert node.pool() == [["gpu-a"]]


def test_stop_before_start_is_fine(api: FakeKubeApi, tmp_path: Path) -> None:
    publisher = Publisher(
        KubeClient(api.credentials()),
        IDENTITY,
        lock=FilePublisherLock(tmp_path / "publish.lock"),
        reports=PublisherReports(say=lambda reason, text: None, refuse=lambda text: None),
    )
    publisher.stop()


class OddLock(FilePublisherLock):
    """A lock with a bug that shows once."""

    is_odd = True

    def acquire(self) -> None:
        """Raises what nobody expects, the first time."""
        if self.is_odd:
            self.is_odd = False
            raise ZeroDivisionError("a bug")
        super().acquire()


def test_an_error_that_nobody_expected_is_tried_again(api: FakeKubeApi, tmp_path: Path) -> None:
    """A bug on the way to the server must not leave the node unpublished until somebody restarts the plugin."""
    publisher = Publisher(
        KubeClient(api.credentials()),
        IDENTITY,
        lock=OddLock(tmp_path / "publish.lock"),
        reports=PublisherReports(say=lambda *_: None, refuse=lambda _: None),
        pace=PaceSettings(backoff_base_s=0.01),
    )
    publisher.start()
    publisher.publish([A])
    try:
        eventually(publisher.is_published)
    finally:
        publisher.stop()
