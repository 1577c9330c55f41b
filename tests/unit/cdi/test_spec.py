"""CDI files as values and as JSON."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.cdi.spec import (
    CdiDevice,
    CdiSpec,
    ContainerEdits,
    DeviceNodeEdit,
    Hook,
    Mount,
    SpecInvalid,
    decode_annotations,
    encode_spec,
)
from tests.unit.cdi.cdi_schema import validate_cdi

ENV = ContainerEdits(env=("A=b",))
PLAIN = CdiSpec(kind="nvidia.com/gpu", devices=(CdiDevice(name="gpu0", container_edits=ENV),))


def version(spec: CdiSpec) -> Any:
    return json.loads(encode_spec(spec))["cdiVersion"]


def with_node(**facts: Any) -> CdiSpec:
    edits = ContainerEdits(device_nodes=(DeviceNodeEdit(path="/dev/nvidia0", **facts),))
    return msgspec.structs.replace(PLAIN, container_edits=edits)


@pytest.mark.parametrize(
    ("spec", "lowest"),
    [
        (PLAIN, "0.3.0"),
        (with_node(type="c", major=195, minor=0, permissions="rw"), "0.3.0"),
        (with_node(host_path="/mock/dev/nvidia0"), "0.5.0"),
        (msgspec.structs.replace(PLAIN, devices=(CdiDevice(name="0-gpu", container_edits=ENV),)), "0.5.0"),
        (msgspec.structs.replace(PLAIN, annotations={"a": "b"}), "0.6.0"),
        (msgspec.structs.replace(PLAIN, kind="nvidia.com/gpu.x"), "0.6.0"),
    ],
    ids=["plain", "node by number", "node from elsewhere", "name begins with a digit", "annotations", "dot in the class"],
)
def test_the_version_is_the_lowest_that_carries_what_is_used(spec: CdiSpec, lowest: str) -> None:
    assert version(spec) == lowest


def test_the_file_has_the_names_of_the_specification() -> None:
    spec = CdiSpec(
        kind="nvidia.com/gpu",
        annotations={"gpu-dra.io/owner": "x"},
        devices=(
            CdiDevice(
                name="0-gpu",
                container_edits=ContainerEdits(
                    env=("A=b",),
                    device_nodes=(
                        DeviceNodeEdit(
                            path="/dev/nvidia0", host_path="/m/nvidia0", type="c", major=195, minor=0, permissions="rw"
                        ),
                    ),
                    mounts=(Mount(host_path="/h", container_path="/c", options=("ro", "bind")),),
                    hooks=(Hook(hook_name="createContainer", path="/bin/h", args=("h", "x")),),
                ),
            ),
        ),
    )
    written = json.loads(encode_spec(spec))
    validate_cdi(written)
    assert written == {
        "cdiVersion": "0.6.0",
        "kind": "nvidia.com/gpu",
        "annotations": {"gpu-dra.io/owner": "x"},
        "devices": [
            {
                "name": "0-gpu",
                "containerEdits": {
                    "env": ["A=b"],
                    "deviceNodes": [
                        {
                            "path": "/dev/nvidia0",
                            "hostPath": "/m/nvidia0",
                            "type": "c",
                            "major": 195,
                            "minor": 0,
                            "permissions": "rw",
                        }
                    ],
                    "mounts": [{"hostPath": "/h", "containerPath": "/c", "options": ["ro", "bind"]}],
                    "hooks": [{"hookName": "createContainer", "path": "/bin/h", "args": ["h", "x"]}],
                },
            }
        ],
    }


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (msgspec.structs.replace(PLAIN, devices=()), "there is no device"),
        (msgspec.structs.replace(PLAIN, kind="gpu"), "'gpu' is no legal kind"),
        (msgspec.structs.replace(PLAIN, devices=PLAIN.devices * 2), "device gpu0 stands there twice"),
        (
            msgspec.structs.replace(PLAIN, devices=(CdiDevice(name="a b", container_edits=ENV),)),
            "'a b' is no legal device name",
        ),
        (
            msgspec.structs.replace(PLAIN, devices=(CdiDevice(name="gpu0", container_edits=ContainerEdits()),)),
            "device gpu0 has no edits",
        ),
    ],
    ids=["no device", "kind", "twice", "name", "b48 empty edits"],
)
def test_what_a_runtime_would_refuse_is_never_written(spec: CdiSpec, says: str) -> None:
    with pytest.raises(SpecInvalid, match=says):
        encode_spec(spec)


def test_annotations_are_read_and_the_rest_is_not_believed() -> None:
    assert decode_annotations(b'{"annotations": {"a": "b"}, "devices": 7}') == {"a": "b"}
    assert decode_annotations(b"{}") == {}


@given(st.binary(max_size=100) | st.sampled_from([b"[" * 100_000, b'{"annotations": {"a": 1}}', b'{"annotations": []}', b"[]"]))
def test_hostile_files_end_in_annotations_or_in_spec_invalid(data: bytes) -> None:
    with contextlib.suppress(SpecInvalid):
        assert decode_annotations(data) == {}
