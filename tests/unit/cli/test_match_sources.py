"""Which devices of slices are looked at."""

from __future__ import annotations

import json
from typing import Any

import pytest

from driver.cel import compile_selector
from driver.cli.match_sources import Candidate, parse_slices
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


def _parse_yaml(attribute: str, capacity: str = "{value: 80Gi}") -> list[Candidate]:
    spec = "driver: gpu.nvidia.com, pool: {name: a}"
    device = f"{{name: gpu-0, attributes: {{x: {attribute}}}, capacity: {{memory: {capacity}}}}}"
    return list(parse_slices(f"kind: ResourceSlice\nspec: {{{spec}, devices: [{device}]}}\n", "slices.yaml"))


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        ("{version: 580.1}", r"got `float` - at `\$\.version`"),
        ("{version: 580}", "got `int`"),
        ("{versions: [1.2]}", r"\$\.versions\[0\]"),
        ("{string: 80}", "got `int`"),
        ("{string: yes}", "got `bool`"),
        ("{string: 2024-01-01}", "got `date`"),
        ("{strings: x}", "got `str`"),
        ('{int: "5"}', "got `str`"),
        ("{int: 1.5}", "got `float`"),
        ("{int: 9223372036854775808}", "<= 9223372036854775807"),
        ("{bool: 1}", "got `int`"),
    ],
)
def test_a_value_of_another_type_is_named_and_no_device_has_it(attribute: str, said: str) -> None:
    """YAML reads text without quotes as it likes, which the API server refuses."""
    with pytest.raises(SettingsInvalid, match=f"slice 1: device 'gpu-0': x: .*{said}.*needs quotes"):
        _parse_yaml(attribute)


@pytest.mark.parametrize("capacity", ["{value: }", "{value: yes}", "{amount: 1}"])
def test_a_capacity_that_is_no_quantity_is_named(capacity: str) -> None:
    with pytest.raises(SettingsInvalid, match=r"slice 1: device 'gpu-0': memory: .*value"):
        _parse_yaml("{int: 1}", capacity)


@pytest.mark.parametrize("capacity", ["{value: 80}", "{value: 80Gi}", "{value: 1.5}"])
def test_a_quantity_may_be_a_number(capacity: str) -> None:
    (device,) = _parse_yaml("{int: 1}", capacity)
    assert compile_selector("device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('1'))").matches(device.view)


def test_an_attribute_that_has_no_text_for_a_name_is_named() -> None:
    item = _slice("a", 1, "gpu-0")
    text = json.dumps(item).replace('"name": "gpu-0"', "name: gpu-0, attributes: {1: {int: 1}}")
    with pytest.raises(SettingsInvalid, match="no map of values"):
        list(parse_slices(text, "slices.yaml"))


def test_devices_of_v1beta1_are_those_of_v1() -> None:
    """It has all but the name under ``basic``: ``kubectl get resourceslices.v1beta1.resource.k8s.io -o yaml``."""
    item = _slice("a", 1, "gpu-0") | {"apiVersion": "resource.k8s.io/v1beta1"}
    item["spec"]["devices"][0]["basic"] = {"attributes": {"type": {"string": "gpu"}}, "allowMultipleAllocations": True}
    (device,) = parse_slices(json.dumps(item), "slices.json")
    selector = "device.attributes['gpu.nvidia.com'].type == 'gpu' && device.allowMultipleAllocations"
    assert compile_selector(selector).matches(device.view)
