"""The node's own Node object, followed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from driver.kube.client import KubeClient
from driver.node.node_watch import NodeSeen, NodeWatch, describe_device_plugin
from tests.fakes.kube_api import FakeKubeApi, Fault

WAIT_S = 20.0


class Followed:
    """A watch, and how often it said that something is another."""

    def __init__(self, api: FakeKubeApi) -> None:
        self.api = api
        self.changed = threading.Condition()
        self.changes = 0
        self.watch = NodeWatch(KubeClient(api.credentials(), timeout_s=5.0), "node-a", self._note)

    def start(self) -> NodeSeen:
        self.watch.start()
        return self.watch.read(WAIT_S)

    def wait(self, is_so: Callable[[NodeSeen], bool]) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: is_so(self.watch.read()), WAIT_S)

    def edit(self, field: str, pairs: dict[str, str]) -> None:
        self.api.edit("nodes", "node-a", lambda now: now | {"metadata": now["metadata"] | {field: pairs}})

    def _note(self) -> None:
        with self.changed:
            self.changes += 1
            self.changed.notify_all()


@pytest.fixture
def followed() -> Iterator[Followed]:
    with FakeKubeApi() as api:
        made = Followed(api)
        yield made
        made.watch.stop()


def test_label_and_acknowledgement_are_seen_as_they_change(followed: Followed) -> None:
    followed.api.create("nodes", {"metadata": {"name": "node-a"}})
    followed.api.create("nodes", {"metadata": {"name": "node-b", "labels": {"gpu.nvidia.com/allocator": "controller"}}})
    seen = followed.start()
    assert seen == NodeSeen(uid=seen.uid, label=None, acknowledged="", trouble="")
    followed.edit("labels", {"gpu.nvidia.com/allocator": "controller"})
    assert followed.wait(lambda seen: seen.label == "controller")
    followed.edit("annotations", {"gpu.nvidia.com/allocator-drained": "2026-12-02T01:00:00Z"})
    assert followed.wait(lambda seen: seen.acknowledged == "2026-12-02T01:00:00Z")
    followed.edit("labels", {})
    assert followed.wait(lambda seen: seen.label is None)


def test_the_kubelets_heartbeats_wake_nobody(followed: Followed) -> None:
    """A Node is written every few minutes and more, by its kubelet."""
    followed.api.create("nodes", {"metadata": {"name": "node-a"}})
    followed.start()
    before = followed.changes
    for beat in range(3):
        followed.edit("annotations", {"beat": str(beat)})
    followed.edit("labels", {"gpu.nvidia.com/allocator": "controller"})
    assert followed.wait(lambda seen: seen.label == "controller")
    assert followed.changes == before + 1


def test_what_cannot_be_read_is_said_and_what_was_read_stays(followed: Followed) -> None:
    followed.api.create("nodes", {"metadata": {"name": "node-a", "labels": {"gpu.nvidia.com/allocator": "controller"}}})
    followed.api.fail(Fault(verb="list", resource="nodes", status=403, reason="Forbidden"))
    assert "the plugin's account needs get, list and watch of nodes" in followed.start().trouble
    assert followed.wait(lambda seen: seen.label == "controller" and not seen.trouble)
    followed.api.fail(Fault(verb="*", resource="nodes", status=500, times=2))
    followed.api.close_idle_connections()
    followed.edit("labels", {"gpu.nvidia.com/allocator": "scheduler"})
    assert followed.wait(lambda seen: seen.label == "scheduler")


def test_a_node_that_is_not_there_says_nothing(followed: Followed) -> None:
    assert followed.start().trouble == "there is no Node node-a"
    followed.api.create("nodes", {"metadata": {"name": "node-a"}})
    assert followed.wait(lambda seen: not seen.trouble)
    followed.api.delete("nodes", "node-a")
    assert followed.wait(lambda seen: seen.trouble == "there is no Node node-a")


def test_a_node_that_is_made_again_is_another(followed: Followed) -> None:
    """Under the same name; whoever is told hears of it once it is there."""
    followed.api.create("nodes", {"metadata": {"name": "node-a"}})
    first = followed.start().uid
    followed.api.delete("nodes", "node-a")
    assert followed.wait(lambda seen: not seen.uid)
    followed.api.create("nodes", {"metadata": {"name": "node-a"}})
    assert followed.wait(lambda seen: bool(seen.uid))
    assert first != followed.watch.read().uid


def test_a_device_plugin_beside_us_is_seen_and_described(followed: Followed) -> None:
    """One that is gone leaves a 0 for a while."""
    followed.api.create("nodes", {"metadata": {"name": "node-a"}, "status": {"allocatable": {"cpu": "8"}}})
    assert followed.start().counted_gpus == ""

    def offer(count: str) -> None:
        status = {"status": {"allocatable": {"nvidia.com/gpu": count}}}
        followed.api.edit("nodes", "node-a", lambda now: now | status, is_status=True)

    offer("8")
    assert followed.wait(lambda seen: seen.counted_gpus == "8")
    assert describe_device_plugin(followed.watch.read()) == (
        "a device plugin offers nvidia.com/gpu: 8 on this node: kubelet and claims would give out the same GPUs; "
        "take the device plugin or this driver away from the node (docs/migration.md)"
    )
    offer("0")
    assert followed.wait(lambda seen: seen.counted_gpus == "")


def test_nothing_is_known_before_the_first_look(followed: Followed) -> None:
    assert followed.watch.read().trouble == "the Node object was not read yet"
