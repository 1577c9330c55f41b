"""Another driver of our name on this node (R30): what counts as one, and what does not."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import msgspec
import pytest

from driver.api.resource_v1 import Attribute, Device
from driver.resourceslice.content import SliceContent
from driver.resourceslice.other_publisher import NvidiaTraces, detect_other_publisher, is_foreign, read_nvidia_traces
from tests.fakes.slices import content, counters, device, existing

NVIDIAS = SliceContent(devices=(Device(name="gpu-0", attributes={"uuid": Attribute(string="GPU-1")}),))
EDITED = SliceContent(devices=(device("gpu-a"), msgspec.structs.replace(device("gpu-b"), attributes={})))
QUALIFIED = SliceContent(
    devices=(Device(name="gpu-a", attributes={"gpu.nvidia.com/allocator": Attribute(string="scheduler")}),)
)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param(NVIDIAS, True, id="devices without our attribute"),
        pytest.param(content("gpu-a"), False, id="our devices"),
        pytest.param(QUALIFIED, False, id="our attribute with its domain"),
        pytest.param(EDITED, False, id="one of our devices was edited by hand"),
        pytest.param(counters("gpu-a"), False, id="counters say nothing"),
        pytest.param(SliceContent(), False, id="an empty slice says nothing"),
    ],
)
def test_whose_slice_it_is(held: SliceContent, expected: bool) -> None:
    assert is_foreign(existing(0, held)) is expected


def test_foreign_slices_are_named_with_the_way_to_migrate() -> None:
    reason = detect_other_publisher([existing(0, content("gpu-a")), existing(1, NVIDIAS, name="00001-theirs")])
    assert reason is not None
    assert "00001-theirs of driver gpu.nvidia.com" in reason
    assert "devices gpu-0" in reason
    assert "drain the node, uninstall the other driver" in reason


def test_nothing_speaks_against_an_empty_node() -> None:
    assert detect_other_publisher([]) is None


def checkpoint(tmp_path: Path, body: object) -> None:
    (tmp_path / "checkpoint.json").write_text(body if isinstance(body, str) else json.dumps(body))


CLAIMS = {"uid-2": {"checkpointState": "PrepareCompleted"}, "uid-1": {}}


@pytest.mark.parametrize(
    ("body", "claims"),
    [
        pytest.param({"v2": {"nodeBootID": "now", "preparedClaims": CLAIMS}}, ("uid-1", "uid-2"), id="this boot"),
        pytest.param({"v1": {"preparedClaims": CLAIMS}}, ("uid-1", "uid-2"), id="the first version has no boot"),
        pytest.param({"v1": {"preparedClaims": CLAIMS}, "v2": {"preparedClaims": {}}}, (), id="the newer version decides"),
        pytest.param({"v2": {"nodeBootID": "then", "preparedClaims": CLAIMS}}, (), id="an earlier boot is void"),
        pytest.param({"v2": {"nodeBootID": "now", "preparedClaims": None}}, (), id="no claims"),
        pytest.param({}, (), id="an empty file of theirs"),
        pytest.param("{", (), id="a torn file lists nothing"),
        pytest.param('{"v2": []}', (), id="another form lists nothing"),
    ],
)
def test_claims_that_nvidias_checkpoint_still_lists(tmp_path: Path, body: object, claims: tuple[str, ...]) -> None:
    checkpoint(tmp_path, body)
    traces = read_nvidia_traces(tmp_path, boot_id="now")
    assert traces == NvidiaTraces(live_socket=None, checkpoint=tmp_path / "checkpoint.json", prepared_claims=claims)
    reason = detect_other_publisher([], traces)
    assert (reason is not None) == bool(claims)
    if reason is not None:
        assert "lists 2 prepared claims (uid-1, uid-2)" in reason
        assert "delete the file" in reason


def test_no_trace_in_a_new_folder(tmp_path: Path) -> None:
    assert detect_other_publisher([], read_nvidia_traces(tmp_path / "absent", boot_id="now")) is None


def test_a_socket_that_answers_is_a_driver_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a short path: 107 bytes are all there is
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("dra.sock")
        server.listen()
        traces = read_nvidia_traces(Path(), boot_id="now")
        assert traces.live_socket == Path("dra.sock")
        assert "is served by NVIDIA's DRA driver" in str(detect_other_publisher([], traces))
    assert read_nvidia_traces(Path(), boot_id="now").live_socket is None  # the file is left, nobody listens
