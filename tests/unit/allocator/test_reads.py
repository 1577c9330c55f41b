"""What a selector reads is told right, or not at all: with the rest of the device gone, the answer is the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from driver.allocator.cel_engine import CelEngine
from driver.allocator.device_node import SelectorFault
from driver.allocator.reads import Read, find_reads
from driver.api.resource_v1 import Device
from driver.cel.device import build_view
from driver.cel.errors import SelectorError
from driver.cel.parser import parse
from driver.cel.selector import compile_selector

D = "gpu.nvidia.com"


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        ('device.driver == "x"', {Read("driver")}),
        (f'device.attributes["{D}"].model == "x"', {Read("attributes", D, "model")}),
        (f'device.attributes["{D}"]["model"] == "x"', {Read("attributes", D, "model")}),
        (f'has(device.attributes["{D}"].model)', {Read("attributes", D, "model")}),
        (f'device.attributes["{D}"].?model.orValue("x") == "x"', {Read("attributes", D, "model")}),
        (f'device.capacity["{D}"].memory.isGreaterThan(quantity("1Gi"))', {Read("capacity", D, "memory")}),
        (f'[1, 2].exists(i, device.attributes["{D}"].size == i)', {Read("attributes", D, "size")}),
        ("true", set()),
        (f'"{D}" in device.attributes', None),
        (f'device.attributes["{D}"].exists(k, k == "x")', None),
        (f'cel.bind(d, device.attributes["{D}"], d.model == "x")', None),
        (f'[1].exists(device, device == 1) || device.attributes["{D}"].a == 1', None),
        ('device.attributes[device.driver].model == "x"', None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_read(expression: str, reads: set[Read] | None) -> None:
    assert find_reads(parse(expression)) == reads


def rest_of(device: dict[str, Any], reads: frozenset[Read], driver: str) -> Device:
    """The device with nothing but what is read."""
    names = {read.name for read in reads if read.domain == driver} | {f"{read.domain}/{read.name}" for read in reads}
    kept = {
        part: {name: value for name, value in device.get(part, {}).items() if name in names}
        for part in ("attributes", "capacity")
    }
    return msgspec.convert({**device, "name": "gpu-0", **kept}, Device)


def answer(engine: CelEngine, expression: str, driver: str, device: Device) -> bool | None:
    try:
        return engine.matches(expression, engine.view(driver, device))
    except SelectorFault:
        return None


def test_the_rest_of_the_device_changes_no_answer() -> None:
    """Every golden selector whose reads are known, on the device that came with it."""
    engine, checked = CelEngine(), 0
    for line in Path("tests/golden/cel/selectors.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        try:
            compile_selector(case["expr"])
            reads = find_reads(parse(case["expr"]))
        except SelectorError:
            continue
        if reads is None:
            continue
        whole = msgspec.convert(case["device"], Device)
        if build_view(case["driver"], whole).fault:
            continue  # lists, which no value of ours can hold
        least = rest_of(case["device"], reads, case["driver"])
        assert answer(engine, case["expr"], case["driver"], least) == answer(CelEngine(), case["expr"], case["driver"], whole)
        checked += 1
    assert checked > 50


@pytest.mark.parametrize("bad", [{"attributes": {"v": {"version": "one"}}}, {"capacity": {"m": {"value": "lots"}}}])
def test_a_device_that_fails_every_evaluation_fails_here_too(bad: dict[str, Any]) -> None:
    """Also where a sound one that reads the same was asked about before."""
    engine = CelEngine()
    expression = 'device.driver == "x"'
    assert answer(engine, expression, "x", Device(name="sound")) is True
    assert answer(engine, expression, "x", msgspec.convert({"name": "bad", **bad}, Device)) is None


def test_devices_that_agree_on_what_is_read_are_asked_about_once() -> None:
    engine = CelEngine()
    expression = f'device.attributes["{D}"].model == "a"'
    devices = [
        msgspec.convert({"name": "x", "attributes": {"model": {"string": model}, "uuid": {"string": uuid}}}, Device)
        for model, uuid in (("a", "1"), ("a", "2"), ("b", "3"))
    ]
    views = [engine.view(D, device) for device in devices]
    assert [engine.matches(expression, view) for view in views] == [True, True, False]
    assert [getattr(view, "view", None) is None for view in views] == [False, True, False]
