"""Slices as objects that kubectl reads."""

from __future__ import annotations

from driver.api.resource_v1 import Attribute, Counter, CounterSet, Device
from driver.cli.slice_objects import build_slice_objects
from driver.resourceslice.content import SliceContent


def test_a_slice_has_kind_version_and_a_name_left_to_the_server() -> None:
    device = Device(name="gpu-0000-17-00-0", attributes={"type": Attribute(string="gpu")})
    assert build_slice_objects([SliceContent(devices=(device,))], driver="gpu.nvidia.com", node="node-a") == [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"generateName": "00000-gpu.nvidia.com-node-a-"},
            "spec": {
                "driver": "gpu.nvidia.com",
                "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
                "nodeName": "node-a",
                "devices": [{"name": "gpu-0000-17-00-0", "attributes": {"type": {"string": "gpu"}}}],
            },
        }
    ]


def test_every_slice_of_a_pool_knows_how_many_there_are() -> None:
    counters = CounterSet(name="gpu-0", counters={"memory": Counter(value="80Gi")})
    objects = build_slice_objects([SliceContent(shared_counters=(counters,)), SliceContent()], driver="d", node="n")
    assert [each["spec"]["pool"]["resourceSliceCount"] for each in objects] == [2, 2]
    assert [each["metadata"]["generateName"] for each in objects] == ["00000-d-n-", "00001-d-n-"]
    assert objects[0]["spec"]["sharedCounters"] == [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]


def test_a_long_name_of_a_node_is_cut_as_the_publisher_cuts_it() -> None:
    """The server would cut it anywhere, so that a name might end in a dot."""
    (made,) = build_slice_objects([SliceContent()], driver="gpu.nvidia.com", node="n" * 100)
    assert len(made["metadata"]["generateName"]) == 58
