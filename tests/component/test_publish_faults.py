"""The publisher when the server refuses, drops or loses something, and beside another driver of our name."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from driver.api.resource_v1 import Attribute, Device, Taint
from driver.resourceslice import publish
from driver.resourceslice.content import SliceContent
from driver.resourceslice.publish_reports import PublishState
from tests.fakes.kube_api import FakeKubeApi, Fault
from tests.fakes.publishing_node import SOON_S, Json, PublishingNode, eventually
from tests.fakes.slices import as_json, content, counters, device, existing

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


@pytest.mark.parametrize(
    "fault",
    [
        Fault(verb="create", status=500),
        Fault(verb="create", status=429, retry_after_s=1, reason="TooManyRequests"),
        Fault(verb="create", kind="drop"),
        Fault(verb="create", kind="raw", status=200, body=b"<html>"),
        Fault(verb="get", resource="nodes", status=404, reason="NotFound"),
        Fault(verb="watch", status=500, times=3),
    ],
    ids=["500", "429", "a cut", "a page", "the node is not there yet", "no watch"],
)
def test_a_failed_write_is_tried_again(node: PublishingNode, api: FakeKubeApi, fault: Fault) -> None:
    api.fail(fault)
    node.start([A, B])
    assert node.pool() == [["gpu-a"], ["gpu-b"]]


def test_a_create_whose_answer_was_lost_leaves_no_second_slice(api: FakeKubeApi, node: PublishingNode) -> None:
    """The server made it, we never heard: the watch tells, or the list, and one of the two goes."""
    api.fail(Fault(verb="create", kind="raw", status=200, body=b"garbage"))
    api.create("resourceslices", as_json(existing(0, A, name="00000-gpu.nvidia.com-node-a-lost1")))
    node.start([A])
    assert node.pool() == [["gpu-a"]]


def test_a_refused_slice_is_said_once_and_not_tried_in_a_loop(api: FakeKubeApi, node: PublishingNode) -> None:
    bad = SliceContent(devices=(msgspec.structs.replace(device("gpu-a"), attributes={"v": Attribute(version="580.159.04")}),))
    publisher = node.start()
    publisher.publish([bad])
    eventually(lambda: publisher.status().state is PublishState.FAILING)
    time.sleep(0.5)
    assert api.count("create") == 1
    ((reason, text),) = node.said
    assert reason == "SliceRefused"
    assert "580.159.04" in text
    publisher.publish([A])  # better content is tried at once
    assert publisher.wait_published(SOON_S)


def test_no_right_to_write_is_said_once_and_healed_when_it_comes(api: FakeKubeApi, node: PublishingNode) -> None:
    api.fail(Fault(verb="create", status=403, reason="Forbidden", message="cannot create", times=3))
    node.start([A])
    assert [reason for reason, _ in node.said] == ["SliceRefused"]


def test_fields_that_the_server_drops_are_said_once_and_do_not_loop(tmp_path: Path) -> None:
    with FakeKubeApi(gates_off=["DRADeviceTaints", "DRAPartitionableDevices"]) as api:
        api.create("nodes", {"metadata": {"name": "node-a"}})
        node = PublishingNode(api, tmp_path)
        tainted = device("gpu-a", taints=(Taint(key="gpu.nvidia.com/ecc", effect="NoSchedule"),), draws="gpu-a")
        publisher = node.start([counters("gpu-a"), SliceContent(devices=(tainted,))])
        time.sleep(0.5)
        assert publisher.is_published()
        assert api.writes() == 2
        assert [reason for reason, _ in node.said] == ["FieldsDropped", "FieldsDropped"]
        assert "devices[].consumesCounters, devices[].taints" in node.said[1][1]
        publisher.publish([counters("gpu-a"), SliceContent(devices=(tainted, device("gpu-b")))])
        assert publisher.wait_published(SOON_S)
        time.sleep(0.3)
        assert api.writes() == 3
        publisher.resync()  # the server may be a newer one: one more try, no more
        assert publisher.wait_published(SOON_S)
        time.sleep(0.3)
        assert api.writes() <= 5
        assert len(node.said) == 2
        publisher.stop()


def test_beside_another_driver_of_our_name_nothing_is_written(api: FakeKubeApi, node: PublishingNode) -> None:
    theirs = SliceContent(devices=(Device(name="gpu-0", attributes={"uuid": Attribute(string="GPU-1")}),))
    api.create("resourceslices", as_json(existing(0, theirs)))
    publisher = node.start()
    publisher.publish([A])
    eventually(lambda: publisher.status().state is PublishState.REFUSED)
    assert api.writes() == 0
    assert len(node.refused) == 1
    api.delete_all("resourceslices")
    eventually(lambda: node.pool() == [["gpu-a"]])


def test_a_driver_that_comes_later_is_noticed_and_not_fought(api: FakeKubeApi, node: PublishingNode) -> None:
    publisher = node.start([A])

    def take_over(body: Json) -> Json:
        body["spec"]["devices"] = [{"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-1"}}}]
        return body

    api.forget_requests()
    api.edit("resourceslices", api.objects("resourceslices")[0]["metadata"]["name"], take_over)
    eventually(lambda: publisher.status().state is PublishState.REFUSED)
    assert (api.writes(), len(node.refused)) == (0, 1)


class _OddRandom(random.Random):
    """Fails once when a moment is drawn after ``is_odd`` was set: an error that nobody expected."""

    is_odd = False

    def uniform(self, a: float, b: float) -> float:
        if self.is_odd:
            self.is_odd = False
            raise ZeroDivisionError("played by the test")
        return super().uniform(a, b)


def test_an_error_that_nobody_expected_does_not_end_the_watch(
    api: FakeKubeApi, node: PublishingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices that the kubelet deletes right after it still come back."""
    monkeypatch.setattr(publish, "_WATCH_AGAIN_S", 0.1)
    rng = _OddRandom(1)
    node.start([A], rng=rng)
    rng.is_odd = True
    api.delete_all("resourceslices")
    eventually(lambda: not rng.is_odd)
    eventually(lambda: node.pool() == [["gpu-a"]])
