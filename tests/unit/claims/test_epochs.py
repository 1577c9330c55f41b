"""What becomes of prepared claims when CDI files, the boot, the driver or a card change (B12, B13, R24)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.errors import (
    DeviceNotReady,
    StateUnwritable,
)
from tests.fakes.claims import Node, claim, device, gpu, prepare_one, ref, result, uid, unprepare_one
from tests.unit.claims.situations import answer, rewrite, wipe


def test_b13_a_repeat_writes_a_lost_cdi_file_again(node: Node) -> None:
    preparer = node.start()
    first = prepare_one(preparer, 1)
    before = wipe(node)
    assert prepare_one(preparer, 1) == first
    assert node.cdi_files() == before


def test_b13_a_repeat_fails_while_the_file_cannot_be_written(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    wipe(node)
    node.cdi.write_text("in the way")
    assert isinstance(prepare_one(preparer, 1), StateUnwritable)
    node.cdi.unlink()
    assert prepare_one(preparer, 1) == answer(1, 1)


@pytest.mark.parametrize(
    "changes",
    [{"boot_id": "boot-2"}, {"driver_version": "590.10"}, {"load_marker": "inode-2"}],
    ids=["boot", "driver", "reload"],
)
def test_b12_a_new_epoch_prepares_afresh_under_the_same_cdi_ids(node: Node, changes: dict[str, str]) -> None:
    first = prepare_one(node.start(), 1)
    node.epoch = replace(node.epoch, **changes)
    preparer = node.start()
    node.steps.clear()
    assert prepare_one(preparer, 1) == first
    assert node.steps == ["prepare:metadata", "prepare:record-PrepareCompleted", "prepare:cdi-file", "prepare:done"]
    assert node.records()[uid(1)]["epoch"]["bootId"] == node.epoch.boot_id
    node.steps.clear()
    assert prepare_one(preparer, 1) == first
    assert node.steps == []


def test_b12_a_new_epoch_is_seen_by_a_running_plugin_too(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    node.reboot()
    node.steps.clear()
    prepare_one(preparer, 1)
    assert "prepare:cdi-file" in node.steps


def test_b12_a_record_without_an_epoch_is_kept(node: Node) -> None:
    preparer = node.start()
    first = prepare_one(preparer, 1)
    rewrite(node, 1, epoch={})
    node.steps.clear()
    assert prepare_one(node.start(), 1) == first
    assert node.steps == []


def test_r24_a_swapped_card_is_refused_and_reported(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    node.gpus[device(1)] = gpu(1, uuid="GPU-new")
    refused = prepare_one(preparer, 1)
    assert isinstance(refused, DeviceNotReady)
    assert "GPU-new now: the card was replaced; delete the pod" in str(refused)
    assert [incident.reason for incident in node.incidents] == ["GpuReplaced"]
    assert unprepare_one(preparer, 1) is None
    node.api.put(claim(ref(2), [result(1)]))
    assert prepare_one(preparer, 2) == answer(2, 1)
