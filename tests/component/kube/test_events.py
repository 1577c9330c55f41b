"""Events: each text once, counted after that, bounded, and never in the way of the caller."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from driver.kube.client import KubeClient
from driver.kube.events import NOTE_MAX_BYTES, ONE_NODE, QUIET_S, EventRecorder, ObjectReference, Source, cut_text
from tests.fakes.kube_api import FakeKubeApi, Fault

NODE = ObjectReference(api_version="v1", kind="Node", name="node-a", uid="node-a")
CLAIM = ObjectReference(api_version="resource.k8s.io/v1", kind="ResourceClaim", name="c", namespace="team-a", uid="u")
SOURCE = Source(controller="gpu.nvidia.com/kubelet-plugin", instance="node-a")


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(client: KubeClient, clock: Clock) -> Iterator[EventRecorder]:
    made = EventRecorder(client, SOURCE, clock=clock)
    yield made
    made.stop()


def test_an_event_about_the_node_has_everything_that_kubectl_shows(api: FakeKubeApi, recorder: EventRecorder) -> None:
    recorder.record(NODE, "GpuUnreadable", "GPU 0000:4e:00.0 fails its calls", action="Observe", is_warning=True)
    assert recorder.flush(20)
    (event,) = api.objects("events")
    meta, stamp = event.pop("metadata"), event.pop("eventTime")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "action": "Observe",
        "reason": "GpuUnreadable",
        "note": "GPU 0000:4e:00.0 fails its calls",
        "type": "Warning",
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": "node-a"},
        "reportingController": "gpu.nvidia.com/kubelet-plugin",
        "reportingInstance": "node-a",
    }
    assert (meta["namespace"], meta["name"].startswith("node-a.")) == ("default", True)
    assert stamp.endswith("Z")


def test_an_event_about_a_claim_lives_in_its_namespace(api: FakeKubeApi, recorder: EventRecorder) -> None:
    recorder.record(CLAIM, "PrepareFailed", "no such device", action="Prepare")
    assert recorder.flush(20)
    (event,) = api.objects("events")
    assert (event["metadata"]["namespace"], event["type"]) == ("team-a", "Normal")


def test_the_same_event_again_is_only_counted_until_ten_minutes_are_over(
    api: FakeKubeApi, recorder: EventRecorder, clock: Clock
) -> None:
    for _ in range(5):
        recorder.record(NODE, "Xid", "48", action="Observe")
    assert recorder.flush(20)
    assert api.writes() == 1
    clock.now_s += QUIET_S
    recorder.record(NODE, "Xid", "48", action="Observe")
    assert recorder.flush(20)
    (event,) = api.objects("events")
    assert (api.writes(), event["series"]["count"]) == (2, 6)


def test_an_event_that_the_server_forgot_is_sent_anew(api: FakeKubeApi, recorder: EventRecorder, clock: Clock) -> None:
    recorder.record(NODE, "Xid", "48", action="Observe")
    assert recorder.flush(20)
    api.delete_all("events")
    clock.now_s += QUIET_S
    recorder.record(NODE, "Xid", "48", action="Observe")
    assert recorder.flush(20)
    assert len(api.objects("events")) == 1


def test_other_words_are_another_event(api: FakeKubeApi, recorder: EventRecorder) -> None:
    recorder.record(NODE, "Xid", "48", action="Observe")
    recorder.record(NODE, "Xid", "79", action="Observe")
    recorder.record(CLAIM, "Xid", "79", action="Observe")
    assert recorder.flush(20)
    assert len(api.objects("events")) == 3


def test_a_storm_of_events_is_cut_by_its_rate(api: FakeKubeApi, recorder: EventRecorder, clock: Clock) -> None:
    for number in range(40):
        recorder.record(NODE, "Xid", str(number), action="Observe")
        assert recorder.flush(20)
    assert (api.writes(), recorder.dropped) == (25, 15)
    clock.now_s += 12
    recorder.record(NODE, "Xid", "later", action="Observe")
    assert recorder.flush(20)
    assert (api.writes(), recorder.dropped) == (26, 0)


def test_a_server_that_hangs_holds_nobody_up(api: FakeKubeApi, recorder: EventRecorder) -> None:
    api.fail(Fault(kind="delay", delay_s=2.0, times=1))
    began = time.monotonic()
    for number in range(ONE_NODE.queue_max + 10):
        recorder.record(NODE, "Xid", str(number), action="Observe")
    assert time.monotonic() - began < 1
    assert recorder.dropped >= 9
    assert not recorder.flush(0.01)


def test_what_the_server_does_not_take_is_dropped_and_counted(api: FakeKubeApi, recorder: EventRecorder) -> None:
    api.fail(Fault(times=2, status=403, reason="Forbidden"))
    recorder.record(NODE, "A", "a", action="Observe")
    recorder.record(NODE, "B", "b", action="Observe")
    assert recorder.flush(20)
    assert recorder.dropped == 2
    recorder.record(NODE, "A", "a", action="Observe")
    assert recorder.flush(20)
    assert ([event["reason"] for event in api.objects("events")], recorder.dropped) == (["A"], 0)


def test_with_nothing_to_say_there_is_no_thread_and_no_request(api: FakeKubeApi, recorder: EventRecorder) -> None:
    assert recorder.flush(0)
    assert (api.count(), recorder._thread) == (0, None)


def test_after_stop_nothing_is_sent(api: FakeKubeApi, recorder: EventRecorder) -> None:
    recorder.stop()
    recorder.record(NODE, "A", "a", action="Observe")
    assert (recorder.dropped, api.count()) == (1, 0)


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        pytest.param("short", 10, "short", id="fits"),
        pytest.param("0123456789", 10, "0123456789", id="fits exactly"),
        pytest.param("0123456789x", 10, "0123456...", id="is cut"),
        pytest.param("äääää", 9, "äää...", id="between characters"),
        pytest.param("\ud800", 9, "?", id="a lone surrogate"),
    ],
)
def test_text_is_cut_at_bytes_and_between_characters(text: str, limit: int, expected: str) -> None:
    assert cut_text(text, limit) == expected


def test_a_long_note_and_a_long_name_are_made_legal(api: FakeKubeApi, recorder: EventRecorder) -> None:
    about = ObjectReference(api_version="v1", kind="Node", name="n" * 199 + "." + "m" * 50)
    recorder.record(about, "Long", "ü" * 3000, action="Observe")
    assert recorder.flush(20)
    (event,) = api.objects("events")
    assert len(event["note"].encode()) <= NOTE_MAX_BYTES
    assert len(event["metadata"]["name"]) <= 253
    assert ".." not in event["metadata"]["name"]


def test_a_missing_right_is_said_once(api: FakeKubeApi, recorder: EventRecorder, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(3):
        api.fail(Fault(status=403, reason="Forbidden", verb="create"))
        recorder.record(NODE, "Xid", f"{number}", action="Observe")
        assert recorder.flush(20)
    told = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(told) == 1
    assert "give the service account the right to create and patch events.k8s.io/events" in told[0]


def test_a_namespace_that_goes_is_no_missing_right(
    api: FakeKubeApi, recorder: EventRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    message = "unable to create new content in namespace team-a because it is being terminated"
    api.fail(Fault(status=403, reason="Forbidden", verb="create", message=message))
    recorder.record(CLAIM, "PrepareFailed", "no such device", action="Prepare")
    assert recorder.flush(20)
    assert [each for each in caplog.records if each.levelname == "WARNING"] == []
