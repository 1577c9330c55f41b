"""What the driver tells containers, the kubelet and operators; what it refuses; and what it hides from everyone but root."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from hack.devcluster.processes import wait_until
from tests.e2e import objects
from tests.e2e.kube import ApiRefused, Json
from tests.e2e.objects import NAMESPACE
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect

SUITE = Suite()
_MACHINE = "dgx-h100"
_TWO = objects.claim_spec([objects.exactly(count=2)])
_METADATA = "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/gpus/gpus/gpu.nvidia.com-metadata.json"
_EXIT_OTHER_PUBLISHER = 3


@SUITE.add("a container reads the attributes of its devices from a file")
def read_metadata(stage: Stage) -> str:
    """The metadata file (KEP-5304) lies where it should, names the pod's devices, and has what the slice says of them."""
    stage.start_plugin(_MACHINE)
    stage.create_pod("pod", _TWO, command=f"cat {_METADATA}; echo {objects.END_OF_REPORT}; exec sleep 100000")
    stage.wait_pod("pod", objects.is_running, what="running")
    log = ""

    def is_said() -> bool:
        nonlocal log
        try:
            log = stage.api.read_log(NAMESPACE, "pod", "main")
        except ApiRefused:
            return False
        return objects.END_OF_REPORT in log

    expect(wait_until(is_said, timeout_s=30.0), f"the container said {log!r}")
    versions = _decode_stream(log.partition(objects.END_OF_REPORT)[0])
    expect(len(versions) == 2, f"{len(versions)} versions of the metadata in {log[:500]!r}")
    allocated = sorted(objects.allocated_devices(stage.read_claim_of("pod")))
    published = objects.slice_devices(stage.wait_pool())
    for version in versions:
        devices = {device["name"]: device for request in version["requests"] for device in request["devices"]}
        expect(sorted(devices) == allocated, f"{version['apiVersion']} names {sorted(devices)}, allocated are {allocated}")
        for name, device in devices.items():
            same = objects.attribute(device, "uuid") == objects.attribute(published[name], "uuid")
            expect(same, f"{name} has another uuid in {version['apiVersion']} than in its slice")
    return f"{', '.join(version['apiVersion'] for version in versions)} with {', '.join(allocated)}"


def _decode_stream(text: str) -> list[dict[str, Any]]:
    """JSON objects one after the other."""
    decoder, found, rest = json.JSONDecoder(), [], text.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        found.append(value)
        rest = rest[end:].strip()
    return found


@SUITE.add("the pod's status shows the health of its devices", needs_minor=36)
def show_health(stage: Stage) -> str:
    """The kubelet takes the health stream and shows each device of the container as healthy."""
    stage.start_plugin(_MACHINE)
    stage.expect_own_devices("pod", stage.run_pod("pod", _TWO))
    body = stage.wait_pod("pod", lambda pod: bool(_read_health(pod)), what="with health in its status")
    health = _read_health(body)
    expect(len(health) == 2 and set(health.values()) == {"Healthy"}, f"the kubelet shows {health}")
    return f"{len(health)} devices, all Healthy"


def _read_health(pod: Json) -> dict[str, str]:
    statuses = [
        each
        for container in pod["status"].get("containerStatuses", [])
        for each in container.get("allocatedResourcesStatus", [])
    ]
    return {resource["resourceID"]: resource["health"] for status in statuses for resource in status.get("resources", [])}


@SUITE.add("sockets and state are for root alone")
def check_permissions(stage: Stage) -> str:
    """Nobody but the owner may connect, read a record or list the folder; the runtime reads CDI files."""
    stage.start_plugin(_MACHINE)
    stage.expect_own_devices("pod", stage.run_pod("pod", _TWO))
    folder = stage.folders.plugin_dir
    private = [*stage.folders.list_sockets(), *stage.folders.list_records(), folder, stage.folders.claim_records]
    open_to_others = [path for path in private if _mode(path) & 0o077]
    expect(not open_to_others, f"others may use {open_to_others}")
    writable = [path for path in stage.folders.list_cdi_files() if _mode(path) & 0o022]
    expect(not writable, f"others may write {writable}")
    return f"{len(private)} sockets, records and folders"


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@SUITE.add("another driver of this name is on the node: refuse, and touch nothing")
def refuse_beside_another(stage: Stage) -> str:
    """A slice as NVIDIA's driver publishes it: the plugin ends with its own exit code, and the slice is as it was."""
    device = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "uuid": {"string": "GPU-0"}}}
    name = f"{stage.layout.node}-{objects.DRIVER}-x7kq2"
    pool = {"name": stage.layout.node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": objects.DRIVER, "nodeName": stage.layout.node, "pool": pool, "devices": [device]}
    made = stage.api.create(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
    )
    plugin = stage.new_plugin(_MACHINE)
    plugin.start()
    status = plugin.wait_ended(timeout_s=60.0)
    expect(status == _EXIT_OTHER_PUBLISHER, f"it ended with {status}")
    left = stage.api.find("ResourceSlice", query=stage.pool_query)
    versions = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in left}
    expect(versions == {name: made["metadata"]["resourceVersion"]}, f"the slices are now {versions}")
    stage.api.delete("ResourceSlice", None, name)
    return f"ended with {status}: {plugin.read_log().strip().splitlines()[-1][:160]}"
