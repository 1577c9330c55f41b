"""MIG profiles, as far as NVML tells them."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.cli.mig_profiles import read_mig_tables
from driver.cli.node_view import MigTable
from driver.nvml.mock import open_mock


def _read(machine: str, folder: Path) -> tuple[MigTable, ...]:
    mock = open_mock(machine, folder)
    mock.library.init()
    try:
        count = mock.library.device_count()
        uuids = [gpu.uuid for gpu in mock.machine.gpus[:count]]
        return read_mig_tables(mock.library, uuids)
    finally:
        mock.library.shutdown()


def test_each_gpu_has_its_profiles_with_placements(tmp_path: Path) -> None:
    tables = _read("dgx-h100", tmp_path)
    assert len(tables) == 8
    by_id = {profile.info.id: profile for profile in tables[0]}
    assert sorted(by_id) == [0, 5, 9, 14, 15, 19, 20]
    assert [(place.start, place.size) for place in by_id[9].placements] == [(0, 4), (4, 4)]
    assert (by_id[9].number, by_id[9].info.slice_count) == (2, 3)


@pytest.mark.parametrize("machine", ["t4", "dgx-1v"])
def test_a_gpu_without_mig_has_none(tmp_path: Path, machine: str) -> None:
    assert set(_read(machine, tmp_path)) == {()}


def test_a_gpu_that_is_lost_has_none_and_its_neighbours_have(tmp_path: Path) -> None:
    tables = _read("dgx-h100-gpu7-lost", tmp_path)
    assert [len(table) for table in tables] == [7] * 7 + [0]
