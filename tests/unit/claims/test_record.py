"""A record's form on disk: old files are read for ever, hostile ones are refused, unknown keys are kept."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.api.gpu_config import GpuConfig
from driver.claims.model import PreparedDevice
from driver.claims.plan import ClaimPlan, PlannedDevice
from driver.claims.record import (
    RECORD_MAX_BYTES,
    ClaimRecord,
    RecordedDevice,
    RecordedEpoch,
    RecordInvalid,
    State,
    add_ids,
    build_answer,
    build_record,
    decode_body,
    decode_record,
    encode_record,
    find_swapped,
    is_same_epoch,
)
from driver.names import CDIDeviceID, GpuUUID
from tests.fakes.claims import POOL, device, gpu, ref, uid

GOLDEN = Path(__file__).parent / "golden"
EPOCH = RecordedEpoch(boot_id="boot-1", driver_version="580.159.04", load_marker="inode-1")
ID = CDIDeviceID(f"k8s.gpu.nvidia.com/claim={uid(1)}-{device(0)}")
DEVICE = RecordedDevice(
    request="gpus", pool=POOL, device=device(0), uuid="GPU-00000000-0000-0000-0000-000000000000", cdi_device_ids=(ID,)
)
FULL = ClaimRecord(
    version=1,
    state=State.PREPARE_COMPLETED,
    namespace="default",
    name="claim-1",
    uid=uid(1),
    allocation="a" * 64,
    epoch=EPOCH,
    devices=(DEVICE,),
)


def planned(position: int, request: str) -> PlannedDevice:
    return PlannedDevice(
        request=request,
        pool=POOL,
        device=device(position),
        uuid=GpuUUID(f"GPU-{position}"),
        cdi_device_id=CDIDeviceID(f"kind/x=d{position}"),
        config=GpuConfig(),
    )


def sealed(body: bytes) -> bytes:
    return b'{"sha256":"%s","record":%s}' % (hashlib.sha256(body).hexdigest().encode(), body)


def without(record: ClaimRecord, *names: str) -> bytes:
    body = json.loads(msgspec.json.encode(record))
    return sealed(json.dumps({key: value for key, value in body.items() if key not in names}).encode())


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("v1-full", FULL),
        ("v1-started", msgspec.structs.replace(FULL, state=State.PREPARE_STARTED)),
        ("v1-with-keys-of-a-later-driver", FULL),
        ("v1-without-epoch", msgspec.structs.replace(FULL, epoch=RecordedEpoch(), allocation="")),
        ("v0-without-version", msgspec.structs.replace(FULL, epoch=RecordedEpoch(), allocation="", version=0)),
    ],
)
def test_b08_records_of_every_schema_are_read(name: str, record: ClaimRecord) -> None:
    """B08: golden files; the hash is over the bytes, so a new field in our types makes no old file corrupt."""
    assert decode_record((GOLDEN / f"{name}.json").read_bytes())[0] == record


def test_b08_a_rewrite_keeps_what_this_version_does_not_know() -> None:
    record, body = decode_record((GOLDEN / "v1-with-keys-of-a-later-driver.json").read_bytes())
    rewritten = encode_record(msgspec.structs.replace(record, state=State.UNPREPARE_STARTED), body)
    after = json.loads(rewritten)["record"]
    assert after["mig"] == {"instances": [{"gi": 3}]}
    assert after["devices"][0]["placement"] == {"start": 4}
    assert after["state"] == "UnprepareStarted"
    assert decode_record(rewritten)[0] == msgspec.structs.replace(FULL, state=State.UNPREPARE_STARTED)


def test_a_rewrite_takes_away_known_keys_that_the_record_has_no_more() -> None:
    body = {**json.loads(msgspec.json.encode(FULL)), "podClaimName": "old"}
    assert "podClaimName" not in json.loads(encode_record(FULL, body))["record"]


def test_keys_of_a_device_do_not_go_to_another_device() -> None:
    body = json.loads(msgspec.json.encode(FULL))
    body["devices"][0]["placement"] = {"start": 4}
    moved = msgspec.structs.replace(FULL, devices=(msgspec.structs.replace(DEVICE, device=device(1)),))
    assert "placement" not in json.loads(encode_record(moved, body))["record"]["devices"][0]


def test_a_record_comes_back_as_it_was_written() -> None:
    assert decode_record(encode_record(FULL))[0] == FULL


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(b"", "truncated", id="b10 empty"),
        pytest.param(b"{", "truncated", id="b10 cut off"),
        pytest.param(b"\x00" * 500, "malformed", id="b10 zeros"),
        pytest.param(encode_record(FULL)[:-40], ".", id="b10 the end is missing"),
        pytest.param(encode_record(FULL).replace(b"boot-1", b"boot-2"), "the hash does not fit", id="b10 another hash"),
        pytest.param(b"[" * 100_000, ".", id="deep"),
        pytest.param(sealed(b'{"a":' * 50_000 + b"1" + b"}" * 50_000), ".", id="deep inside"),
        pytest.param(b'"' + b"x" * RECORD_MAX_BYTES + b'"', "too many", id="too long"),
        pytest.param(sealed(b"[]"), ".", id="a list"),
        pytest.param(sealed(b"null"), ".", id="null"),
        pytest.param(without(FULL, "uid"), "uid", id="no uid"),
        pytest.param(without(FULL, "state"), "state", id="no state"),
        pytest.param(without(FULL, "devices"), "devices", id="no devices"),
    ],
)
def test_what_is_no_record_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(RecordInvalid, match=says):
        decode_record(data)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 3},
        {"version": -1},
        {"state": "Prepared"},
        {"uid": "../../etc/passwd"},
        {"uid": uid(1).upper() + "A"},
        {"uid": f"{uid(1)}\n"},
        {"name": "x" * 254},
        {"devices": [json.loads(msgspec.json.encode(DEVICE))] * 65},
        {"devices": [{**json.loads(msgspec.json.encode(DEVICE)), "device": "../x"}]},
        {"devices": [{**json.loads(msgspec.json.encode(DEVICE)), "device": "gpu\n"}]},
        {"devices": [{**json.loads(msgspec.json.encode(DEVICE)), "shareID": "x"}]},
        {"devices": {}},
        {"epoch": 5},
    ],
    ids=str,
)
def test_fields_of_the_wrong_form_are_refused(changes: dict[str, Any]) -> None:
    body = {**json.loads(msgspec.json.encode(FULL)), **changes}
    with pytest.raises(RecordInvalid):
        decode_record(sealed(json.dumps(body).encode()))


@given(st.binary(max_size=300))
@settings(max_examples=150, deadline=None)
def test_any_bytes_end_in_a_record_or_record_invalid(data: bytes) -> None:
    for decode in (decode_record, decode_body):
        with pytest.raises(RecordInvalid):
            decode(data)


@given(st.integers(0, 10_000), st.integers(1, 255))
@settings(max_examples=150, deadline=None)
def test_one_flipped_byte_never_gives_another_record(position: int, mask: int) -> None:
    data = bytearray(encode_record(FULL))
    data[position % len(data)] ^= mask
    with contextlib.suppress(RecordInvalid):
        assert decode_record(bytes(data))[0] == FULL


def test_metadata_ids_go_to_the_first_device_of_each_request() -> None:
    plan = ClaimPlan(
        ref=ref(1), allocation="h", devices=(planned(0, "a/x"), planned(1, "a/x"), planned(2, "b")), pod_claim_name="gpu"
    )
    record = add_ids(build_record(plan, EPOCH), {"a": CDIDeviceID("m/x=a"), "b": CDIDeviceID("m/x=b")})
    assert [each.cdi_device_ids for each in record.devices] == [
        ("kind/x=d0", "m/x=a"),
        ("kind/x=d1",),
        ("kind/x=d2", "m/x=b"),
    ]
    assert (record.state, record.epoch, record.pod_claim_name, record.allocation) == (
        State.PREPARE_COMPLETED,
        EPOCH,
        "gpu",
        "h",
    )


def test_the_kubelet_is_told_base_requests_and_ids() -> None:
    record = msgspec.structs.replace(FULL, devices=(msgspec.structs.replace(DEVICE, request="gpus/tight"),))
    assert build_answer(record) == (
        PreparedDevice(requests=("gpus",), pool=POOL, device=device(0), cdi_device_ids=(ID,), share_id=None),
    )


@pytest.mark.parametrize(
    ("now", "same"),
    [
        (EPOCH, True),
        (msgspec.structs.replace(EPOCH, boot_id="boot-2"), False),
        (msgspec.structs.replace(EPOCH, driver_version="590.1"), False),
        (msgspec.structs.replace(EPOCH, load_marker="inode-2"), False),
        (RecordedEpoch(boot_id="boot-1"), True),
        (RecordedEpoch(), True),
    ],
    ids=["nothing changed", "rebooted", "driver upgraded", "driver reloaded", "NVML is gone", "nothing is known"],
)
def test_an_epoch_ends_with_what_is_known_to_differ(now: RecordedEpoch, same: bool) -> None:
    assert is_same_epoch(EPOCH, now) is same
    assert is_same_epoch(RecordedEpoch(), now)


def test_a_swapped_card_is_one_of_another_uuid_in_the_same_slot() -> None:
    assert find_swapped(FULL, {device(0): gpu(0)}) == ()
    assert find_swapped(FULL, {}) == ()
    assert find_swapped(FULL, {device(0): gpu(0, uuid="GPU-new")}) == (DEVICE,)
