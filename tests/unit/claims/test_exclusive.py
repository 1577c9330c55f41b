"""A device is one claim's at a time; monitors neither hold nor are held (B07, B66)."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from driver.api.gpu_config import NVIDIA_VERSION
from driver.claims.model import Deadline
from driver.errors import (
    ConfigInvalid,
    DeviceInUse,
)
from tests.fakes.claims import Node, claim, config, device, prepare_one, ref, result, uid, unprepare_one
from tests.unit.claims.situations import answer, set_state


def test_b07_a_device_that_another_claim_holds_is_refused_until_that_ends(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    node.api.put(claim(ref(2), [result(1)]))
    refused = prepare_one(preparer, 2)
    assert isinstance(refused, DeviceInUse)
    assert f"held by claim default/claim-1 (uid {uid(1)})" in str(refused)
    assert node.states() == {uid(1): "PrepareCompleted"}
    unprepare_one(preparer, 1)
    assert prepare_one(preparer, 2) == answer(2, 1)


def test_b07_another_instance_holds_too(node: Node) -> None:
    prepare_one(node.start(), 1)
    node.api.put(claim(ref(2), [result(1)]))
    assert isinstance(prepare_one(node.start(), 2), DeviceInUse)


@pytest.mark.parametrize("state", ["PrepareStarted", "UnprepareStarted"])
def test_b07_a_claim_that_is_half_done_holds_its_devices(node: Node, state: str) -> None:
    prepare_one(node.start(), 1)
    set_state(node, 1, state)
    node.api.put(claim(ref(2), [result(1)]))
    refused = prepare_one(node.start(), 2)
    assert isinstance(refused, DeviceInUse)
    assert state in str(refused)


def test_b07_many_claims_that_want_one_device_at_once_get_it_once(node: Node) -> None:
    preparers = [node.start(), node.start()]
    node.api.put(*(claim(ref(n), [result(0)]) for n in range(8)))
    answers: dict[int, Any] = {}
    threads = [threading.Thread(target=lambda n=n: answers.__setitem__(n, prepare_one(preparers[n % 2], n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(isinstance(each, DeviceInUse) for each in answers.values()) == [False] + [True] * 7
    assert len(node.states()) == len(node.cdi_files()) == 1


def test_b66_a_monitor_neither_holds_nor_is_held(node: Node) -> None:
    """B66: workloads behave as if the monitor did not exist, and the other way round."""
    preparer = node.start()
    prepare_one(preparer, 1)
    everything = [result(n, admin_access=True) for n in range(8)]
    node.api.put(claim(ref(20), everything), claim(ref(2), [result(1)]))
    assert prepare_one(preparer, 20) == answer(20, *range(8))
    unprepare_one(preparer, 1)
    assert prepare_one(preparer, 2) == answer(2, 1)
    assert unprepare_one(preparer, 20) is None
    assert node.states() == {uid(2): "PrepareCompleted"}


def test_b66_a_monitor_does_not_wait_for_a_device_whose_lock_is_held(node: Node) -> None:
    preparer = node.start()
    node.api.put(claim(ref(20), [result(1, admin_access=True)]))
    with preparer.work.locks.hold_gpus((device(1),), ref(1), Deadline(0), "hung"):
        assert prepare_one(preparer, 20) == answer(20, 1)


def test_b66_a_monitor_with_a_config_is_refused(node: Node) -> None:
    parameters = {"apiVersion": NVIDIA_VERSION, "kind": "GpuConfig"}
    node.api.put(claim(ref(20), [result(1, admin_access=True)], [config(parameters)]))
    assert isinstance(prepare_one(node.start(), 20), ConfigInvalid)


def test_two_requests_of_a_monitor_for_one_device_share_its_cdi_device(node: Node) -> None:
    node.api.put(claim(ref(20), [result(1, "a", admin_access=True), result(1, "b", admin_access=True)]))
    given = prepare_one(node.start(), 20)
    assert given == answer(20, 1, request="a") + answer(20, 1, request="b")
    assert len(json.loads(node.cdi_path(20).read_bytes())["devices"]) == 1
