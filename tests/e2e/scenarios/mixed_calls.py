"""Good and bad claims in one call, and what becomes of prepared claims when the machine changes under them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from driver.nvml.mock.machine import reboot
from driver.pb.dra.v1 import api_pb2
from tests.e2e import calls, objects
from tests.e2e.kube import Json
from tests.e2e.objects import NAMESPACE
from tests.e2e.process import REPOSITORY
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect

SUITE = Suite()
_NEW_VERSION = "580.159.04"
_MALFORMED: Json = {
    "source": "FromClaim",
    "requests": [],
    "opaque": {
        "driver": objects.DRIVER,
        "parameters": {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharring": {}},
    },
}
_WORDS = {
    "unknown-device": "gpu-0000-ee-00-0",
    "other-pool": "node-z",
    "other-uid": "uid",
    "unallocated": "allocation",
    "held": "holder",
    "malformed": "sharring",
}
"""What the error of each bad claim must name."""


@SUITE.add("good and bad claims in one call")
def run_mixed_call(stage: Stage) -> str:
    """Each bad claim gets an error of its own that names what is wrong; the good ones beside it are prepared."""
    plugin = stage.start_plugin("dgx-h100")
    devices = list(objects.slice_devices(stage.wait_pool(devices=8)))
    holder = calls.claim_message(stage.create_allocated_claim("holder", devices[:1]))
    expect(not calls.call_prepare(plugin.service_socket, [holder])[holder.uid].error, "the holder is not prepared")
    messages = _create_mixed_claims(stage, devices)
    answers = calls.call_prepare(plugin.service_socket, list(messages.values()))
    errors = {name: answers[message.uid].error for name, message in messages.items()}
    for name in ("good-1", "good-2", "other-driver"):
        expect(not errors[name], f"{name} failed: {errors[name]}")
    for name, word in _WORDS.items():
        expect(word in errors[name], f"the error of {name} does not name {word!r}: {errors[name]!r}")
    expect(len({errors[name] for name in _WORDS}) == len(_WORDS), "bad claims share an error text")
    given = [len(answers[messages[name].uid].devices) for name in ("good-1", "good-2", "other-driver")]
    expect(given == [1, 2, 0], f"the good claims got {given} devices")
    released = calls.call_unprepare(plugin.service_socket, [*messages.values(), holder])
    expect(not any(released.values()), f"unprepare: {released}")
    return f"{len(_WORDS)} bad claims with {len(_WORDS)} different errors, 2 good ones prepared, another driver's passed over"


def _create_mixed_claims(stage: Stage, devices: list[str]) -> dict[str, api_pb2.Claim]:
    create = stage.create_allocated_claim
    bodies: dict[str, Json] = {
        "good-1": create("good-1", devices[1:2]),
        "unknown-device": create("unknown-device", ["gpu-0000-ee-00-0"]),
        "other-pool": create("other-pool", devices[4:5], pool="node-z"),
        "other-driver": create("other-driver", ["nic-0"], driver="nic.example.com"),
        "other-uid": create("other-uid", devices[5:6]),
        "unallocated": stage.api.create(objects.claim("unallocated", objects.claim_spec([objects.exactly()]))),
        "held": create("held", devices[:1]),
        "malformed": create("malformed", devices[6:7], config=[_MALFORMED]),
        "good-2": create("good-2", devices[2:4]),
    }
    messages = {name: calls.claim_message(body) for name, body in bodies.items()}
    messages["other-uid"] = calls.claim_message(bodies["other-uid"], uid="11111111-2222-3333-4444-555555555555")
    return messages


@SUITE.add("a pod with a malformed config waits with a clear event, and ends; its neighbour runs")
def run_malformed_pod(stage: Stage) -> str:
    """The kubelet's event on the pod names the field that is wrong; nothing of the claim stays."""
    stage.start_plugin("dgx-h100")
    config = {"requests": ["gpus"], "opaque": _MALFORMED["opaque"]}
    stage.create_pod("bad", objects.claim_spec([objects.exactly()], config=[config]))
    stage.expect_own_devices("good", stage.run_pod("good", objects.claim_spec([objects.exactly()])))

    def is_said(events: list[Json]) -> bool:
        return any("sharring" in event.get("message", "") for event in events)

    query = "fieldSelector=involvedObject.name%3Dbad,reason%3DFailedPrepareDynamicResources"
    events = stage.api.wait("Event", NAMESPACE, is_said, what="an event that names the field", query=query, timeout_s=60.0)
    stage.delete_pods("bad")
    message = next(str(event["message"]) for event in events if is_said([event]))
    return message[message.find("config") :][:160]


@SUITE.add("the node reboots: claims are prepared afresh under the same CDI ids")
def run_reboot(stage: Stage) -> str:
    """The record of another boot is not believed; the kubelet asks again and gets the same ids, with files made anew."""
    plugin = stage.start_plugin("dgx-h100")
    devices = list(objects.slice_devices(stage.wait_pool(devices=8)))
    message = calls.claim_message(stage.create_allocated_claim("claim", devices[:2]))
    first = calls.cdi_ids(calls.call_prepare(plugin.service_socket, [message])[message.uid])
    before = _read_boot_id(stage)
    plugin.stop()
    reboot(stage.folders.mock_state)
    for path in stage.folders.list_cdi_files():  # /var/run is empty after a boot
        path.unlink()
    plugin.start()
    plugin.wait_registered()
    stage.wait_pool(devices=8)
    answer = calls.call_prepare(plugin.service_socket, [message])[message.uid]
    expect(not answer.error, f"prepare after the reboot failed: {answer.error}")
    expect(calls.cdi_ids(answer) == first, f"the ids were {first} and are {calls.cdi_ids(answer)}")
    expect(_read_boot_id(stage) != before, "the record still has the boot id of before")
    expect(bool(stage.folders.list_cdi_files()), "no CDI file after the reboot")
    expect(not calls.call_unprepare(plugin.service_socket, [message])[message.uid], "unprepare failed")
    return f"a new boot id in the record, the same {len(first)} ids"


@SUITE.add("the driver is upgraded: prepared afresh, same CDI ids; the cards are swapped: refused")
def run_upgrade_of_driver(stage: Stage) -> str:
    """The CDI file follows the new version's libraries; a claim on a card that is not there any more is refused, and can go."""
    plugin = stage.start_plugin("dgx-h100")
    devices = list(objects.slice_devices(stage.wait_pool(devices=8)))
    message = calls.claim_message(stage.create_allocated_claim("claim", devices[:2]))
    first = calls.cdi_ids(calls.call_prepare(plugin.service_socket, [message])[message.uid])
    text = _read_claim_file(stage, message.uid)
    before = _devices(stage)
    (old_version,) = {str(objects.attribute(each, "driverVersionText")) for each in before.values()}
    expect(f".so.{old_version}" in text, f"the CDI file names no library of {old_version}")

    plugin.stop()
    upgraded = stage.start_plugin(str(_write_upgraded_machine(stage, old_version)))
    answer = calls.prepare_until_done(upgraded.service_socket, message)
    expect(calls.cdi_ids(answer) == first, f"after the upgrade: {answer.error or calls.cdi_ids(answer)}")
    text = _read_claim_file(stage, message.uid)
    expect(f".so.{_NEW_VERSION}" in text and f".so.{old_version}" not in text, "the CDI file names the old libraries")

    upgraded.stop()
    swapped = stage.start_plugin("dgx-h100@other-cards")
    old_uuid = str(objects.attribute(before[devices[0]], "uuid"))
    answer = calls.call_prepare(swapped.service_socket, [message])[message.uid]
    expect(old_uuid in answer.error, f"the error does not name the card that is gone: {answer.error!r}")
    expect(not calls.call_unprepare(swapped.service_socket, [message])[message.uid], "unprepare failed")
    fresh = calls.claim_message(stage.create_allocated_claim("fresh", devices[:2]))
    answer = calls.prepare_until_done(swapped.service_socket, fresh)
    expect(not answer.error, f"a new claim on the new cards: {answer.error}")
    expect(not calls.call_unprepare(swapped.service_socket, [fresh])[fresh.uid], "unprepare failed")
    return f"{old_version} to {_NEW_VERSION}: the file follows, {len(first)} ids stay; other UUIDs: refused, then given anew"


def _devices(stage: Stage) -> Mapping[str, Json]:
    return objects.slice_devices(stage.wait_pool(devices=8))


def _read_claim_file(stage: Stage, uid: str) -> str:
    (path,) = [path for path in stage.folders.list_cdi_files() if uid in path.name and "metadata" not in path.name]
    return path.read_text()


def _write_upgraded_machine(stage: Stage, old_version: str) -> Path:
    source = REPOSITORY / "driver" / "nvml" / "mock" / "machines" / "dgx-h100.yaml"
    path = stage.folders.logs / "dgx-h100-upgraded.yaml"
    path.write_text(source.read_text().replace(old_version, _NEW_VERSION))
    return path


def _read_boot_id(stage: Stage) -> object:
    (path,) = stage.folders.list_records()
    return json.loads(path.read_text())["record"]["epoch"]["bootId"]
