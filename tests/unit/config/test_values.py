"""What passes each check, as what value; and what each refusal says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.config import values

PARSERS: dict[str, Callable[[str], object]] = {
    "path": values.parse_path,
    "node": values.parse_node_name,
    "driver": values.parse_driver_name,
    "nvml": values.parse_nvml,
    "pod": values.parse_pod_uid,
    "address": values.parse_address,
    "time": values.parse_seconds,
    "object": values.parse_object_name,
    "choice": values.choice("json", "text"),
}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("path", "/var/lib/kubelet", Path("/var/lib/kubelet")),
        ("path", "/a//b/./c", Path("/a/b/c")),
        ("path", "//a", Path("/a")),
        ("path", "/with space/ü", Path("/with space/ü")),
        ("node", "node-a.example.com", "node-a.example.com"),
        ("node", "1", "1"),
        ("node", "a" * 63 + "." + "b" * 63, "a" * 63 + "." + "b" * 63),
        ("driver", "gpu.nvidia.com", "gpu.nvidia.com"),
        ("nvml", "real", "real"),
        ("nvml", "mock:dgx-h100", "mock:dgx-h100"),
        ("nvml", "mock:dgx-h100@node-b", "mock:dgx-h100@node-b"),
        ("nvml", "mock:/tmp/my machine.yaml", "mock:/tmp/my machine.yaml"),
        ("pod", "3f0c9a52-1b7e-4c7b-9d20-0a6c6f1f7d11", "3f0c9a52-1b7e-4c7b-9d20-0a6c6f1f7d11"),
        ("address", ":8080", "[::]:8080"),
        ("address", "127.0.0.1:51515", "127.0.0.1:51515"),
        ("address", "[::1]:80", "[::1]:80"),
        ("address", "unix:/run//gpu-dra/health.sock", "unix:/run/gpu-dra/health.sock"),
        ("address", "unix:///run/gpu-dra/health.sock", "unix:/run/gpu-dra/health.sock"),
        ("time", "900", 900),
        ("time", "90s", 90),
        ("time", "15m", 900),
        ("time", "1h", 3600),
        ("object", "gpu-dra/gpu-dra-controller", "gpu-dra/gpu-dra-controller"),
        ("choice", "text", "text"),
    ],
)
def test_a_right_text_becomes_its_value(kind: str, text: str, value: object) -> None:
    assert PARSERS[kind](text) == value


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        pytest.param("time", "0", "is too short; say at least 1s, such as 900s, 15m or 1h", id="no time at all"),
        pytest.param("time", "15 min", "is no time", id="a unit that is none"),
        pytest.param("time", "-1", "is no time", id="a time before now"),
        pytest.param("object", "gpu-dra-controller", "is not NAMESPACE/NAME", id="a name without a namespace"),
        pytest.param("object", "../x", "is not NAMESPACE/NAME", id="a namespace that is none"),
        pytest.param("path", "", "is not absolute; give a path that starts with /", id="an empty path"),
        pytest.param("path", "run/x", "is not absolute", id="a relative path"),
        pytest.param("path", "/a\x00b", "holds a NUL", id="a path with a NUL"),
        pytest.param("path", "/a\nb", "line break", id="a path of two lines"),
        pytest.param("node", "Node-A", "is no node name", id="an upper-case node"),
        pytest.param("node", "a_b", "is no node name", id="a node with an underscore"),
        pytest.param("node", "a..b", "is no node name", id="a node with an empty label"),
        pytest.param("node", "../../etc", "is no node name", id="a node that is a path"),
        pytest.param("node", "a\n", "is no node name", id="a node with a line break at its end"),
        pytest.param("node", ".".join(["a" * 63] * 4), "is no node name", id="a node of 255 bytes"),
        pytest.param("driver", "GPU.nvidia.com", "is no driver name", id="an upper-case driver"),
        pytest.param("driver", "a" * 60 + ".com", "is no driver name", id="a driver of 64 bytes"),
        pytest.param("driver", "gpu/nvidia", "is no driver name", id="a driver with a slash"),
        pytest.param("nvml", "mock", "is no NVML", id="a mock without a machine"),
        pytest.param("nvml", "mock:", "is no NVML", id="a mock with an empty machine"),
        pytest.param("nvml", "mock:@7", "is no NVML", id="a seed without a machine"),
        pytest.param("nvml", "real:0", "is no NVML", id="the real one with a machine"),
        pytest.param("nvml", "REAL", "say real, mock:dgx-h100", id="another spelling"),
        pytest.param("pod", "a/../b", "is no pod uid; take it from the downward API", id="a pod uid that is a path"),
        pytest.param("pod", "a" * 64, "is no pod uid", id="a long pod uid"),
        pytest.param("pod", "a-", "is no pod uid", id="a pod uid that sockets cannot be named by"),
        pytest.param("address", "8080", "is no address", id="a bare port"),
        pytest.param("address", ":0", "is no address", id="port zero"),
        pytest.param("address", ":65536", "is no address", id="a port too high"),
        pytest.param("address", ":٣٣", "is no address", id="a port in other digits"),
        pytest.param("address", "unix:///" + "a" * 107, "longer than the 107 bytes", id="a long socket path"),
        pytest.param("address", "unix:relative", "is not absolute", id="a relative socket path"),
        pytest.param("address", "unix://host/path", "has a host; say unix:/path/of/socket", id="a socket of another host"),
        pytest.param("choice", "yaml", "'yaml' is not a choice; say json or text", id="no such choice"),
    ],
)
def test_a_wrong_text_is_refused_with_what_would_be_right(kind: str, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        PARSERS[kind](text)


@settings(max_examples=60)
@given(kind=st.sampled_from(sorted(PARSERS)), text=st.text(max_size=300))
def test_any_text_is_a_value_or_one_short_printable_refusal(kind: str, text: str) -> None:
    refusal = ""
    try:
        PARSERS[kind](text)
    except ValueError as err:
        refusal = str(err)
    assert len(refusal) < 400
    assert refusal.isprintable()
