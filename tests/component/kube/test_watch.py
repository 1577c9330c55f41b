"""List and watch over real sockets: nothing is missed, nothing is told twice, and no failure becomes a hot loop."""

from __future__ import annotations

import json
import queue
import random
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import msgspec
import pytest

from driver.api.resource_v1 import ResourceSlice
from driver.kube.changes import Change
from driver.kube.client import KubeClient
from driver.kube.resources import RESOURCE_SLICES, Selection
from driver.kube.watch import Failed, Listed, Seen, Watcher, WatchPace
from tests.fakes.kube_api import FakeKubeApi, Fault
from tests.fakes.slices import as_json, content, existing

OURS = Selection(field_selector="spec.driver=gpu.nvidia.com,spec.nodeName=node-a")


class Reader:
    """Reads a watcher in a thread of its own."""

    def __init__(self, client: KubeClient, *, backoff_base_s: float = 0.5, backoff_cap_s: float = 30.0) -> None:
        pace = WatchPace(backoff_base_s=backoff_base_s, backoff_cap_s=backoff_cap_s)
        self.watcher = Watcher(client, RESOURCE_SLICES, OURS, rng=random.Random(1), pace=pace)
        self.seen: queue.Queue[Seen[ResourceSlice]] = queue.Queue()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        for seen in self.watcher.changes():
            self.seen.put(seen)

    def words(self, count: int) -> list[str]:
        """The next changes: ``added 00000-a``, ``listed``, ``failed``."""
        return [_word(self.seen.get(timeout=20)) for _ in range(count)]

    def __enter__(self) -> Reader:
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        self.watcher.stop()
        self.thread.join(20)
        assert not self.thread.is_alive()


def _word(seen: Seen[ResourceSlice]) -> str:
    if isinstance(seen, Change):
        return f"{seen.kind.value} {seen.item.metadata.name}"
    return "listed" if isinstance(seen, Listed) else "failed"


def put(api: FakeKubeApi, name: str) -> None:
    api.create("resourceslices", as_json(existing(0, content("gpu-a"), name=name)))


def touch(api: FakeKubeApi, name: str) -> None:
    def change(body: dict[str, Any]) -> dict[str, Any]:
        body["spec"]["pool"]["generation"] += 1
        return body

    api.edit("resourceslices", name, change)


@pytest.fixture
def reader(client: KubeClient) -> Iterator[Reader]:
    with Reader(client, backoff_base_s=0.02, backoff_cap_s=0.1) as running:
        yield running


def test_what_exists_is_added_then_changes_follow(api: FakeKubeApi, client: KubeClient) -> None:
    put(api, "00000-a")
    with Reader(client) as reader:
        assert reader.words(2) == ["added 00000-a", "listed"]
        put(api, "00001-b")
        touch(api, "00000-a")
        api.delete("resourceslices", "00001-b")
        assert reader.words(3) == ["added 00001-b", "modified 00000-a", "deleted 00001-b"]
    assert (api.count("list"), api.count("watch")) == (1, 1)


def test_objects_are_reduced_before_they_are_told_or_remembered(api: FakeKubeApi, client: KubeClient) -> None:
    """From a list and from a watch, and still so when the last state is told with the deletion."""

    def reduce(item: ResourceSlice) -> ResourceSlice:
        return msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, devices=()))

    put(api, "00000-a")
    watcher = Watcher(client, RESOURCE_SLICES, OURS, rng=random.Random(1), reduce=reduce)
    changes = watcher.changes()
    seen = [next(changes), next(changes)]
    put(api, "00001-b")
    seen.append(next(changes))
    api.delete("resourceslices", "00000-a")
    seen.append(next(changes))
    watcher.stop()
    told = [(_word(each), each.item.spec.devices) for each in seen if isinstance(each, Change)]
    assert told == [("added 00000-a", ()), ("added 00001-b", ()), ("deleted 00000-a", ())]


def test_slices_of_other_nodes_are_not_told(api: FakeKubeApi, reader: Reader) -> None:
    assert reader.words(1) == ["listed"]
    body = as_json(existing(0, content("gpu-a"), name="00000-other"))
    body["spec"]["nodeName"] = "node-b"
    api.create("resourceslices", body)
    put(api, "00000-a")
    assert reader.words(1) == ["added 00000-a"]


def test_after_a_cut_the_watch_resumes_without_a_list(api: FakeKubeApi, reader: Reader) -> None:
    assert reader.words(1) == ["listed"]
    put(api, "00000-a")
    assert reader.words(1) == ["added 00000-a"]
    api.close_idle_connections()
    put(api, "00001-b")
    words = reader.words(1)
    assert (words if words != ["failed"] else reader.words(1)) == ["added 00001-b"]
    assert api.count("list") == 1


def test_a_bookmark_moves_the_place_to_resume_from(api: FakeKubeApi, reader: Reader) -> None:
    """Without it, a quiet watch would find its version compacted away, and list again."""
    assert reader.words(1) == ["listed"]
    while api.count("watch") == 0:
        time.sleep(0.01)
    for number in range(5):
        api.create("nodes", {"metadata": {"name": f"node-{number}"}})
    time.sleep(0.1)
    api.send_bookmarks()
    time.sleep(0.2)
    version = api.store.version
    assert reader.watcher._version == str(version)


def test_a_410_in_the_stream_leads_to_a_list_that_tells_only_differences(api: FakeKubeApi, reader: Reader) -> None:
    """A slice that was deleted and made again under its name in the gap is told as both."""
    assert reader.words(1) == ["listed"]
    for name in ("00000-same", "00001-again", "00002-gone", "00003-changed"):
        put(api, name)
    assert reader.words(4) == ["added 00000-same", "added 00001-again", "added 00002-gone", "added 00003-changed"]
    api.stop()
    api.delete("resourceslices", "00001-again")
    put(api, "00001-again")
    api.delete("resourceslices", "00002-gone")
    touch(api, "00003-changed")
    put(api, "00004-new")
    api.compact()
    api.start()
    words = [word for word in reader.words(7) if word != "failed"]
    while len(words) < 6:
        words += [word for word in reader.words(1) if word != "failed"]
    assert set(words) == {
        "deleted 00001-again",
        "deleted 00002-gone",
        "added 00001-again",
        "modified 00003-changed",
        "added 00004-new",
        "listed",
    }
    assert words[0].startswith("deleted")


def test_a_410_as_an_answer_leads_to_a_list_too(api: FakeKubeApi, client: KubeClient) -> None:
    put(api, "00000-a")
    api.fail(Fault(verb="watch", status=410, reason="Expired"))
    with Reader(client, backoff_base_s=0.02) as reader:
        assert reader.words(3) == ["added 00000-a", "listed", "listed"]
    assert (api.count("list"), api.count("watch")) == (2, 2)


STREAMS: dict[str, bytes] = {
    "a page": b"<html>login</html>\n",
    "half an event": b'{"type": "ADDED", "obj',
    "an event of no kind": b'{"type": "MOVED", "object": {}}\n',
    "an object of another form": b'{"type": "ADDED", "object": {"spec": 5}}\n',
    "no object": b'{"type": "ADDED"}\n',
    "an error without a code": b'{"type": "ERROR", "object": {"kind": "Status", "message": "etcd"}}\n',
    "an error 500": b'{"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd"}}\n',
    "not UTF-8": b'{"type": "ADDED", "object": {"metadata": {"name": "\xff"}}}\n',
    "deep nesting": b'{"type": "ADDED", "object": ' + b"[" * 100_000 + b"\n",
    "nothing": b"\n\n",
}


@pytest.mark.parametrize("body", STREAMS.values(), ids=STREAMS.keys())
def test_garbage_in_a_stream_is_survived(api: FakeKubeApi, client: KubeClient, body: bytes) -> None:
    api.fail(Fault(verb="watch", kind="stream", body=body))
    with Reader(client, backoff_base_s=0.02) as reader:
        assert reader.words(1) == ["listed"]
        deadline = time.monotonic() + 20
        while api.count("watch") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        put(api, "00000-a")
        word = ""
        while not word.startswith("added"):
            word = reader.words(1)[0]
        assert word == "added 00000-a"


def test_an_error_without_a_code_is_listed_after(api: FakeKubeApi, client: KubeClient) -> None:
    """The version may be what is wrong (https://github.com/fiaas/k8s/pull/94): with it each watch would end so."""
    gone = b'{"type": "ERROR", "object": {"kind": "Status", "message": "too old resource version", "reason": "Gone"}}\n'
    api.fail(Fault(verb="watch", kind="stream", body=gone))
    with Reader(client, backoff_base_s=0.02) as reader:
        assert reader.words(3) == ["listed", "failed", "listed"]


def test_an_event_in_many_pieces_is_one_event(api: FakeKubeApi, client: KubeClient) -> None:
    put(api, "00000-a")
    item = api.objects("resourceslices")[0] | {
        "metadata": api.objects("resourceslices")[0]["metadata"] | {"uid": "x" * 200_000}
    }
    line = json.dumps({"type": "ADDED", "object": item}).encode() + b"\n"
    api.fail(Fault(verb="watch", kind="stream", body=line))
    with Reader(client, backoff_base_s=0.02) as reader:
        assert reader.words(3) == ["added 00000-a", "listed", "added 00000-a"]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(times=10_000, status=500),
        Fault(times=10_000, status=403, reason="Forbidden"),
        Fault(times=10_000, kind="raw", status=200, body=b"<html>"),
        Fault(times=10_000, kind="drop"),
        Fault(times=10_000, verb="watch", status=410, reason="Expired"),
        Fault(times=10_000, verb="watch", kind="stream", body=b"\n"),
        Fault(times=10_000, verb="watch", kind="stream", body=b'{"type": "MOVED", "object": {}}\n'),
    ],
    ids=["500", "403", "a page", "a cut", "always 410", "an empty stream", "garbage"],
)
def test_no_failure_becomes_a_hot_loop(api: FakeKubeApi, client: KubeClient, fault: Fault) -> None:
    """A second of failure is a handful of requests; a loop without back-off made 1,500 in three (libraries.md 2.4)."""
    api.fail(fault)
    with Reader(client, backoff_base_s=0.5):
        time.sleep(1.0)
    assert 1 <= api.count() <= 30


def test_after_failures_everything_is_told(api: FakeKubeApi, reader: Reader) -> None:
    assert reader.words(1) == ["listed"]
    api.stop()
    put(api, "00000-a")
    api.start()
    word = reader.words(1)[0]
    while word == "failed":
        word = reader.words(1)[0]
    assert word == "added 00000-a"


def test_the_servers_own_wait_is_respected(api: FakeKubeApi, client: KubeClient) -> None:
    api.fail(Fault(verb="list", status=429, retry_after_s=2))
    began = time.monotonic()
    with Reader(client, backoff_base_s=0.01) as reader:
        assert reader.words(2) == ["failed", "listed"]
    assert time.monotonic() - began >= 2


def test_a_failure_says_what_it_was(api: FakeKubeApi, client: KubeClient) -> None:
    api.fail(Fault(verb="list", status=403, reason="Forbidden", message="no list for you"))
    with Reader(client, backoff_base_s=0.01) as reader:
        first = reader.seen.get(timeout=20)
    assert isinstance(first, Failed)
    assert "no list for you" in str(first.error)


def test_stop_wakes_a_reader_at_once_in_every_place(api: FakeKubeApi, client: KubeClient) -> None:
    with Reader(client) as reading:
        assert reading.words(1) == ["listed"]
        while api.count("watch") == 0:
            time.sleep(0.01)
        began = time.monotonic()
    api.fail(Fault(times=10_000))
    with Reader(client, backoff_base_s=100, backoff_cap_s=100) as waiting:
        assert waiting.words(1) == ["failed"]
        waiting.watcher.stop()
    assert time.monotonic() - began < 5
