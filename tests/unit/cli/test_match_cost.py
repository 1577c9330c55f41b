"""A selector that the controller refuses as too slow is refused by ``gpu-dra match`` too: the same one, in the same words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from driver.allocator.cel_engine import CelEngine
from driver.allocator.device_node import SelectorFault
from driver.allocator.selector_meter import MOST_UNITS
from driver.api.resource_v1 import Attribute, Capacity, Device
from driver.cel import build_view, compile_selector
from driver.cli.main import main
from driver.cli.match_cost import ControllerCost, count_cost
from driver.cli.match_sources import Candidate

DRIVER = "gpu.nvidia.com"
TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
UUID = f'device.attributes["{DRIVER}"].uuid != "x"'
PRODUCT = f'device.attributes["{DRIVER}"].productName != "x"'
MEMORY = f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("1"))'


def nested(depth: int, body: str) -> str:
    """Ten times as slow with each level."""
    for level in range(depth):
        body = f"{TEN}.all(x{level}, {body})"
    return body


def devices(count: int) -> list[Device]:
    return [
        Device(
            name=f"gpu-{number}",
            attributes={
                "uuid": Attribute(string=f"GPU-{number}"),
                "productName": Attribute(string="H100"),
                "driverVersion": Attribute(version="580.0.0"),
            },
            capacity={"memory": Capacity(value="80Gi")},
        )
        for number in range(count)
    ]


def cost_of(source: str, count: int) -> ControllerCost | None:
    candidates = [Candidate(DRIVER, "n", each.name, build_view(DRIVER, each)) for each in devices(count)]
    return count_cost(compile_selector(source), candidates)


def controller_says(source: str, count: int) -> str:
    engine, said = CelEngine(), ""
    for device in devices(count):
        try:
            engine.matches(source, engine.view(DRIVER, device))
        except SelectorFault as err:
            said = str(err)
    return said


@pytest.mark.parametrize("body", [UUID, PRODUCT, MEMORY, f"{PRODUCT} && {MEMORY}"])
@pytest.mark.parametrize("depth", [1, 3, 4, 5])
@pytest.mark.parametrize("count", [1, 8, 64])
def test_match_and_the_controller_say_the_same(body: str, depth: int, count: int) -> None:
    cost = cost_of(nested(depth, body), count)
    assert ("" if cost is None else cost.refusal) == controller_says(nested(depth, body), count)


def test_a_quick_selector_is_not_counted() -> None:
    assert cost_of(UUID, 64) is None


@pytest.mark.parametrize(
    ("body", "evaluations"), [(UUID, 8), (PRODUCT, 1), (MEMORY, 1), (f"{PRODUCT} && {MEMORY}", 1)], ids=str
)
def test_devices_that_the_selector_cannot_tell_apart_count_once(body: str, evaluations: int) -> None:
    cost = cost_of(nested(3, body), 8)
    assert cost is not None
    assert (cost.evaluations, cost.refusal) == (evaluations, "")
    assert cost.units % evaluations == 0


def test_counting_ends_where_the_controller_gives_up() -> None:
    cost = cost_of(nested(4, UUID), 64)
    assert cost is not None
    assert cost.refusal.startswith(f"the selector is too slow: it cost {cost.units:,} units on {cost.evaluations} devices")
    assert MOST_UNITS < cost.units < MOST_UNITS + 1_000


MACHINE = ("--nvml", "mock:dgx-h100", "--node-name", "n")


def test_the_table_says_it_with_the_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", nested(4, UUID), *MACHINE]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("8 of 8 devices match estimated cost ")
    assert "gpu-dra controller refuses it: the selector is too slow: it cost 300,0" in text
    assert "or compare attributes directly" in text


def test_the_table_has_the_cost_of_one_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", nested(3, UUID), *MACHINE]) == 0
    assert "units on 8 devices that differ for it" in capsys.readouterr().out


def test_programs_get_the_cost_and_the_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", nested(4, UUID), *MACHINE, "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["controllerRefusal"].startswith(
        f"the selector is too slow: it cost {found['controllerCost']['units']:,} units"
    )
    assert main(["match", UUID, *MACHINE, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["controllerCost"], found["controllerRefusal"]) == (None, "")


def test_devices_of_other_drivers_are_not_the_controllers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nics = [{"name": f"nic-{number}", "attributes": {"uuid": {"string": str(number)}}} for number in range(64)]
    spec = {"driver": "nic.example.com", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}, "devices": nics}
    file = tmp_path / "slices.yaml"
    file.write_text(yaml.safe_dump({"kind": "ResourceSlice", "spec": spec}))
    assert main(["match", nested(4, UUID.replace(DRIVER, "nic.example.com")), "--slices", str(file)]) == 0
    assert "refuses" not in capsys.readouterr().out
