"""Which devices of slices are looked at."""

from __future__ import annotations

import json
from typing import Any

import pytest

from driver.cli.match_sources import parse_slices
from driver.errors import SettingsInvalid


def _slice(pool: str, generation: int | None, *devices: str, driver: str = "gpu.nvidia.com") -> dict[str, Any]:
    said = {"name": pool} if generation is None else {"name": pool, "generation": generation}
    return {"kind": "ResourceSlice", "spec": {"driver": driver, "pool": said, "devices": [{"name": each} for each in devices]}}


def _names(*slices: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each.pool, each.name) for each in parse_slices(json.dumps(list(slices)), "slices.json")]


@pytest.mark.parametrize(
    ("slices", "names"),
    [
        pytest.param([_slice("a", 1, "x"), _slice("a", 2, "x", "y")], [("a", "x"), ("a", "y")], id="the newest of a pool"),
        pytest.param([_slice("a", 2, "x"), _slice("a", 2, "y")], [("a", "x"), ("a", "y")], id="all of one generation"),
        pytest.param([_slice("a", 9, "x"), _slice("b", 1, "y")], [("a", "x"), ("b", "y")], id="each pool by itself"),
        pytest.param(
            [_slice("a", 1, "x"), _slice("a", 5, "nic", driver="nic.example.com")],
            [("a", "x"), ("a", "nic")],
            id="each driver by itself",
        ),
        pytest.param([_slice("a", None, "x")], [("a", "x")], id="no generation is said"),
        pytest.param([_slice("a", None, "x"), _slice("a", 1, "y")], [("a", "y")], id="none is older than any"),
    ],
)
def test_a_device_counts_once_while_its_pool_is_updated(slices: list[dict[str, Any]], names: list[tuple[str, str]]) -> None:
    """As the scheduler does: only a pool's highest generation."""
    assert _names(*slices) == names


def test_a_slice_without_a_pool_is_named() -> None:
    with pytest.raises(SettingsInvalid, match=r"slice 2 has no spec\.driver or no spec\.pool"):
        _names(_slice("a", 1, "x"), {"kind": "ResourceSlice", "spec": {"driver": "gpu.nvidia.com"}})


@pytest.mark.parametrize("devices", [3, "gpu-0", {"name": "gpu-0"}])
def test_devices_that_are_no_list_are_named(devices: object) -> None:
    item = {"kind": "ResourceSlice", "spec": {"driver": "gpu.nvidia.com", "pool": {"name": "a"}, "devices": devices}}
    with pytest.raises(SettingsInvalid, match=r"slice 1: spec\.devices is no list"):
        _names(item)
