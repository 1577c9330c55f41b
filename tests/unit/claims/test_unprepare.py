"""A claim is released: the grant first, from the record alone (B03, B17)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from driver.errors import (
    DeviceInUse,
    StateUnwritable,
)
from tests.fakes.claims import Node, claim, prepare_one, ref, result, unprepare_one
from tests.unit.claims.situations import answer


def test_b03_a_device_is_held_until_its_grant_is_gone(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """B03: unlinking the CDI file fails; the device must not be free while a live file still grants it."""
    preparer = node.start()
    prepare_one(preparer, 1)
    node.api.put(claim(ref(2), [result(1)]))
    unlink = os.unlink

    def refuse(path: str) -> None:
        if Path(path).parent == node.cdi:
            raise PermissionError(1, "Operation not permitted")
        unlink(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        error = unprepare_one(preparer, 1)
    assert isinstance(error, StateUnwritable)
    assert "the claim keeps its devices until this works" in str(error)
    assert isinstance(prepare_one(preparer, 2), DeviceInUse)
    assert unprepare_one(preparer, 1) is None
    assert prepare_one(preparer, 2) == answer(2, 1)


def test_b03_a_cdi_file_that_is_gone_already_is_success(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    node.cdi_path(1).unlink()
    assert unprepare_one(preparer, 1) is None
    assert node.leftovers() == []


def test_b17_unprepare_asks_neither_the_api_server_nor_nvml(node: Node) -> None:
    prepare_one(node.start(), 1)
    node.api.is_down, node.api.reads = True, 0
    node.lose_nvml()
    node.host.missing |= {"nvidia1", "nvidiactl"}
    preparer = node.start()
    assert unprepare_one(preparer, 1) is None
    assert unprepare_one(preparer, 9) is None
    assert (node.api.reads, node.leftovers()) == (0, [])


def test_a_named_claim_is_prepared_again_right_after_its_unprepare(node: Node) -> None:
    """R8: no refusal by time; the next pod of a named claim comes a moment later."""
    preparer = node.start()
    first = prepare_one(preparer, 1)
    for _ in range(3):
        assert unprepare_one(preparer, 1) is None
        assert prepare_one(preparer, 1) == first
