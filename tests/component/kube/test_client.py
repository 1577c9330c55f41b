"""The client over real sockets: what it asks, what it refuses to believe, and how it says what went wrong."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import ResourceSlice
from driver.errors import (
    ApiError,
    ApiUnreachable,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
)
from driver.kube.client import KubeClient, Preconditions
from driver.kube.credentials import TokenFile
from driver.kube.resources import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES, Selection
from tests.fakes.kube_api import FakeKubeApi, Fault
from tests.fakes.slices import as_json, content, existing

OURS = Selection(field_selector="spec.driver=gpu.nvidia.com,spec.nodeName=node-a")


def a_slice(index: int = 0) -> ResourceSlice:
    base = existing(index, content(f"gpu-{index}"))
    return msgspec.structs.replace(base, metadata=ObjectMeta(generate_name=f"{index:05x}-gpu.nvidia.com-node-a-"))


def test_create_get_replace_delete(client: KubeClient) -> None:
    made = client.create(RESOURCE_SLICES, a_slice())
    assert made.metadata.name.startswith("00000-gpu.nvidia.com-node-a-")
    assert client.get(RESOURCE_SLICES, made.metadata.name) == made
    changed = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, devices=content("gpu-b").devices))
    stored = client.replace(RESOURCE_SLICES, changed)
    assert stored.spec == changed.spec
    with pytest.raises(Conflict, match="has been modified"):
        client.replace(RESOURCE_SLICES, changed)
    client.delete(RESOURCE_SLICES, stored.metadata)
    with pytest.raises(NotFound, match=r"GET /apis/resource\.k8s\.io/v1/resourceslices/.*: 404 NotFound: "):
        client.get(RESOURCE_SLICES, made.metadata.name)


@pytest.mark.parametrize(
    "condition", [Preconditions(uid="another"), Preconditions(resource_version="1")], ids=["uid", "version"]
)
def test_a_delete_with_a_condition_that_does_not_hold_does_nothing(client: KubeClient, condition: Preconditions) -> None:
    made = client.create(RESOURCE_SLICES, a_slice())
    with pytest.raises(Conflict):
        client.delete(RESOURCE_SLICES, made.metadata, preconditions=condition)
    held = Preconditions(uid=made.metadata.uid, resource_version=made.metadata.resource_version)
    client.delete(RESOURCE_SLICES, made.metadata, preconditions=held)


def test_patch_changes_only_what_it_names(api: FakeKubeApi, client: KubeClient) -> None:
    made = client.create(RESOURCE_SLICES, a_slice())
    patched = client.patch(RESOURCE_SLICES, made.metadata, {"metadata": {"labels": {"a": "b"}}})
    assert (patched.metadata.labels, patched.spec) == ({"a": "b"}, made.spec)


def test_a_namespaced_object_is_found_in_its_namespace(api: FakeKubeApi, client: KubeClient) -> None:
    api.create("resourceclaims", {"metadata": {"name": "c", "namespace": "team-a"}, "spec": {}})
    assert client.get(RESOURCE_CLAIMS, "c", namespace="team-a").metadata.namespace == "team-a"
    with pytest.raises(NotFound):
        client.get(RESOURCE_CLAIMS, "c", namespace="team-b")


def test_a_list_is_read_by_pages_and_only_what_was_asked_for(api: FakeKubeApi, client: KubeClient) -> None:
    for index in range(7):
        api.create("resourceslices", as_json(existing(index, content(f"gpu-{index}"))))
    foreign = as_json(existing(8, content("gpu-x")))
    foreign["spec"]["nodeName"] = "node-b"
    api.create("resourceslices", foreign)
    listing = client.list_all(RESOURCE_SLICES, OURS, page_size=3)
    assert [item.spec.devices[0].name for item in listing.items] == [f"gpu-{index}" for index in range(7)]
    assert listing.resource_version == str(api.store.version)
    assert api.count("list") == 3


def test_an_empty_list_has_a_version(client: KubeClient) -> None:
    listing = client.list_all(RESOURCE_SLICES)
    assert (listing.items, listing.resource_version.isdigit()) == ((), True)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        pytest.param(Fault(status=400, reason="BadRequest"), Invalid, id="400"),
        pytest.param(Fault(status=401, reason="Unauthorized"), Forbidden, id="401"),
        pytest.param(Fault(status=403, reason="Forbidden"), Forbidden, id="403"),
        pytest.param(Fault(status=404, reason="NotFound"), NotFound, id="404"),
        pytest.param(Fault(status=409, reason="Conflict"), Conflict, id="409"),
        pytest.param(Fault(status=410, reason="Expired"), Gone, id="410"),
        pytest.param(Fault(status=422, reason="Invalid"), Invalid, id="422"),
        pytest.param(Fault(status=429, reason="TooManyRequests"), TooManyRequests, id="429"),
        pytest.param(Fault(status=500), ApiError, id="500"),
        pytest.param(Fault(status=503, reason="ServiceUnavailable"), ApiError, id="503"),
        pytest.param(Fault(kind="drop", times=2), ApiUnreachable, id="connection cut twice"),
        pytest.param(Fault(kind="raw", status=200, body=b"<html>login</html>"), ApiError, id="200 with a page"),
        pytest.param(Fault(kind="raw", status=200, body=b"[" * 5000), ApiError, id="200 with deep nesting"),
        pytest.param(Fault(kind="raw", status=200, body=b'{"metadata": {"name": 5}}'), ApiError, id="200 of another form"),
        pytest.param(Fault(kind="raw", status=200, body=b'{"metadata": {"name": "\xff"}}'), ApiError, id="200 not UTF-8"),
        pytest.param(Fault(kind="raw", status=302, body=b""), ApiError, id="a redirect is not followed"),
    ],
)
def test_every_refusal_is_an_error_of_our_tree(
    api: FakeKubeApi, client: KubeClient, fault: Fault, expected: type[ApiError]
) -> None:
    api.fail(fault)
    with pytest.raises(expected) as caught:
        client.get(NODES, "node-a")
    assert type(caught.value) is expected
    assert str(caught.value).startswith("GET /api/v1/nodes/node-a: ")
    assert caught.value.status == (0 if fault.kind == "drop" else fault.status)
    assert client.get(NODES, "node-a").metadata.name == "node-a"  # the connection, or the next, is good


def test_the_servers_reason_and_message_are_in_the_error(api: FakeKubeApi, client: KubeClient) -> None:
    api.fail(Fault(status=403, reason="Forbidden", message="nodes is forbidden: User system:x"))
    with pytest.raises(Forbidden, match="403 Forbidden: nodes is forbidden: User system:x"):
        client.get(NODES, "node-a")


def test_retry_after_comes_with_the_error_and_is_bounded(api: FakeKubeApi, client: KubeClient) -> None:
    api.fail(Fault(status=429, retry_after_s=7))
    api.fail(Fault(status=429, retry_after_s=10**9))
    found = []
    for _ in range(2):
        with pytest.raises(TooManyRequests) as caught:
            client.get(NODES, "node-a")
        found.append(caught.value.retry_after_s)
    assert found == [7, 300]


def test_a_page_of_megabytes_ends_up_as_a_few_lines(api: FakeKubeApi, client: KubeClient) -> None:
    api.fail(Fault(kind="raw", status=502, body=b"<html>\n\x00bad gateway " + b"x" * 3_000_000))
    with pytest.raises(ApiError, match="<html> bad gateway x") as caught:
        client.get(NODES, "node-a")
    assert len(str(caught.value)) < 500
    api.fail(Fault(status=500, message="m" * 50_000))
    with pytest.raises(ApiError) as caught:
        client.get(NODES, "node-a")
    assert len(str(caught.value)) < 1200


def test_nothing_is_tried_again_but_what_the_caller_tries(api: FakeKubeApi, client: KubeClient) -> None:
    api.fail(Fault(status=500, times=3))
    with pytest.raises(ApiError):
        client.get(NODES, "node-a")
    assert api.count() == 1


def test_a_connection_that_the_server_closed_while_it_idled_is_no_failure(api: FakeKubeApi, client: KubeClient) -> None:
    client.get(NODES, "node-a")
    api.close_idle_connections()
    assert client.get(NODES, "node-a").metadata.name == "node-a"


def test_as_many_connections_are_kept_as_were_asked_for(api: FakeKubeApi) -> None:
    """More than that are opened when they are needed, and closed."""
    client = KubeClient(api.credentials(), connections=3)
    api.fail(Fault(kind="delay", delay_s=1.0, times=5))
    with ThreadPoolExecutor(5) as pool:
        names = list(pool.map(lambda _: client.get(NODES, "node-a").metadata.name, range(5)))
    assert names == ["node-a"] * 5
    ends_at = time.monotonic() + 20
    while api.open_connections > 3 and time.monotonic() < ends_at:
        time.sleep(0.01)
    assert api.open_connections == 3
    client.close()


def test_a_cut_before_the_answer_is_tried_once_more_for_what_may_be_repeated(api: FakeKubeApi, client: KubeClient) -> None:
    api.fail(Fault(kind="drop"))
    assert client.get(NODES, "node-a").metadata.name == "node-a"
    assert api.count("get") == 2


def test_a_create_that_was_cut_is_not_repeated(api: FakeKubeApi, client: KubeClient) -> None:
    api.fail(Fault(kind="drop", verb="create"))
    with pytest.raises(ApiUnreachable):
        client.create(RESOURCE_SLICES, a_slice())
    assert api.count("create") == 1


def test_a_server_that_says_nothing_is_given_up_at_the_callers_deadline(api: FakeKubeApi, client: KubeClient) -> None:
    api.fail(Fault(kind="delay", delay_s=3.0))
    with pytest.raises(ApiUnreachable, match="timed out"):
        client.get(NODES, "node-a", timeout_s=0.1)


def test_a_server_that_is_not_there(api: FakeKubeApi, client: KubeClient) -> None:
    api.stop()
    with pytest.raises(ApiUnreachable, match="no answer from the API server"):
        client.get(NODES, "node-a")
    api.start()
    assert client.get(NODES, "node-a").metadata.name == "node-a"


def test_a_refused_token_is_read_again_once(api: FakeKubeApi, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    client = KubeClient(api.credentials(TokenFile(tmp_path / "token")))
    api.tokens = {"old"}
    client.get(NODES, "node-a")
    api.tokens = {"new"}
    (tmp_path / "token").write_text("new")
    assert client.get(NODES, "node-a").metadata.name == "node-a"
    assert api.count("get") == 3
    api.tokens = {"newer"}
    with pytest.raises(Forbidden, match="401 Unauthorized"):
        client.get(NODES, "node-a")
    assert api.count("get") == 5
    client.close()


def test_a_create_answered_401_is_sent_again_with_the_new_token(api: FakeKubeApi, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    client = KubeClient(api.credentials(TokenFile(tmp_path / "token")))
    api.tokens = {"old"}
    client.get(NODES, "node-a")
    api.tokens = {"new"}
    (tmp_path / "token").write_text("new")
    client.create(RESOURCE_SLICES, a_slice())
    assert len(api.objects("resourceslices")) == 1
    client.close()


def test_no_token_at_all_is_a_refusal_and_not_the_end_of_the_process(api: FakeKubeApi, tmp_path: Path) -> None:
    client = KubeClient(api.credentials(TokenFile(tmp_path / "absent")))
    with pytest.raises(Forbidden, match=r"reading the token from .*absent"):
        client.get(NODES, "node-a")
    client.close()


def test_many_threads_share_a_client(api: FakeKubeApi, client: KubeClient) -> None:
    errors: list[ApiError] = []

    def ask() -> None:
        try:
            for _ in range(20):
                client.get(NODES, "node-a")
        except ApiError as err:
            errors.append(err)

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert api.count("get") == 240


def test_the_servers_version(api: FakeKubeApi, client: KubeClient) -> None:
    assert client.server_version().numbers == (1, 37)
    api.version = {"major": "1", "minor": "34+", "gitVersion": "v1.34.4-gke.1"}
    assert client.server_version().numbers == (1, 34)
    api.version = {"major": "", "minor": "x", "gitVersion": ""}
    assert client.server_version().numbers == (0, 0)


@pytest.mark.parametrize("name", ["a/b", "a?b=c", "a b", "%2e", "a#b"])
def test_a_name_never_leaves_its_place_in_the_path(client: KubeClient, name: str) -> None:
    with pytest.raises(NotFound):
        client.get(NODES, name)


@pytest.mark.parametrize("name", [".", ".."])
def test_dots_are_no_name(client: KubeClient, name: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        client.get(NODES, name)


def test_random_answers_of_any_status_are_values_or_errors(api: FakeKubeApi, client: KubeClient) -> None:
    """A fuzzer of 300 answers: whole, torn, nested, not text; the client stays good for the next one."""
    rng, texts = random.Random(7), [""]
    whole = msgspec.json.encode({"kind": "Node", "metadata": {"name": "node-a", "uid": "u", "labels": {"a": "b"}}})
    for _ in range(300):
        body = bytearray(whole)
        for _ in range(rng.randrange(6)):
            body[rng.randrange(len(body))] = rng.randrange(256)
        body = body[: rng.randrange(len(body) + 1)] + b"[" * rng.choice([0, 0, 5000])
        status = rng.choice([200, 200, 200, 201, 301, 400, 404, 409, 410, 418, 429, 500, 599])
        api.fail(Fault(kind="raw", status=status, body=bytes(body)))
        try:
            client.get(NODES, "node-a")
        except ApiError as err:
            texts.append(str(err))
    assert max(map(len, texts)) < 1500
    assert client.get(NODES, "node-a").metadata.name == "node-a"
