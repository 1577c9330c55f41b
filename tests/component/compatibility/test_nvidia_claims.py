"""What people have written for NVIDIA's driver works here as it is: docs/compatibility.md has a row for each of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from driver.api.resource_v1 import Device
from driver.cel import build_view, compile_selector
from driver.topology.mig_offer import MigSetting
from tests.component.node.one_node import DRIVER, OneNode, one_node
from tests.fakes.kubelet_wire import CallFailed

ROOT = Path(__file__).parents[3]
MACHINE = "dgx-h100"


@pytest.fixture(scope="module")
def node() -> Iterator[OneNode]:
    """A DGX H100 with dynamic MIG."""
    with one_node() as made:
        made.start(MACHINE, mig=MigSetting.AUTO)
        made.wait_published(8 * 26)
        yield made


def devices(node: OneNode) -> dict[str, Device]:
    return {name: msgspec.convert(device, Device) for name, device in node.devices().items()}


def chosen(node: OneNode, expression: str) -> list[str]:
    """The devices that a selector takes; an error is a failure."""
    selector = compile_selector(expression)
    return [name for name, device in devices(node).items() if selector.matches(build_view(DRIVER, device))]


def test_the_two_classes_of_nvidias_chart_divide_the_devices(node: OneNode) -> None:
    found = {}
    for name in ("gpu.nvidia.com", "mig.nvidia.com"):
        document = yaml.safe_load((ROOT / "deviceclasses" / f"{name}.yaml").read_text())
        (selector,) = document["spec"]["selectors"]
        found[document["metadata"]["name"]] = len(chosen(node, selector["cel"]["expression"]))
    assert found == {"gpu.nvidia.com": 8, "mig.nvidia.com": 8 * 25}


WHOLE = {
    "type": "string",
    "uuid": "string",
    "productName": "string",
    "brand": "string",
    "architecture": "string",
    "cudaComputeCapability": "version",
    "driverVersion": "version",
    "cudaDriverVersion": "version",
    "addressingMode": "string",
    "resource.kubernetes.io/pciBusID": "string",
    "resource.kubernetes.io/pcieRoot": "string",
    "resource.kubernetes.io/numaNode": "int",
}
PART = {**WHOLE, "profile": "string", "parentUUID": "string"}
PART.pop("uuid")
ENGINES = {"multiprocessors", "copyEngines", "decoders", "encoders", "jpegEngines", "ofaEngines"}


@pytest.mark.parametrize(
    ("kind", "attributes", "capacities"), [("gpu", WHOLE, {"memory"}), ("mig", PART, {"memory", *ENGINES})], ids=["GPU", "MIG"]
)
def test_every_attribute_and_capacity_of_nvidias_is_there_in_its_form(
    node: OneNode, kind: str, attributes: dict[str, str], capacities: set[str]
) -> None:
    """A MIG device that is still to be made has no uuid there either."""
    for device in (each for each in node.devices().values() if each["attributes"]["type"]["string"] == kind):
        for name, form in attributes.items():
            assert list(device["attributes"][name]) == [form], name
        assert capacities <= set(device["capacity"])


GPU, STANDARD = f'device.attributes["{DRIVER}"]', 'device.attributes["resource.kubernetes.io"]'
MEMORY = f'device.capacity["{DRIVER}"].memory'


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        (f'{GPU}.type == "gpu"', 8),
        (f'{GPU}.productName.lowerAscii().matches("^.*h100.*$")', 8 * 26),
        (f'{GPU}.architecture == "Hopper" && {GPU}.type == "gpu"', 8),
        (f'{GPU}.cudaComputeCapability.isGreaterThan(semver("8.0.0")) && {GPU}.type == "gpu"', 8),
        (f'{GPU}.driverVersion.compareTo(semver("550.54.14")) >= 0 && {GPU}.type == "gpu"', 8),
        (f'{MEMORY}.compareTo(quantity("40Gi")) >= 0 && {GPU}.type == "gpu"', 8),
        (f'{GPU}.type == "mig" && {GPU}.profile == "1g.10gb"', 8 * 7),
        (f'{GPU}.type == "mig" && {GPU}.profile == "3g.40gb"', 8 * 2),
        (f'{GPU}.type == "mig" && {MEMORY}.compareTo(quantity("20Gi")) >= 0 && {GPU}.profile.startsWith("7g")', 8),
        (f'{STANDARD}.pcieRoot.startsWith("pci") && {STANDARD}.numaNode == 0 && {GPU}.type == "gpu"', 4),
    ],
)
def test_selectors_as_people_write_them_take_the_devices_that_they_mean(node: OneNode, expression: str, count: int) -> None:
    assert len(chosen(node, expression)) == count


def test_parts_of_one_gpu_have_its_uuid_as_their_parent(node: OneNode) -> None:
    """``matchAttribute: gpu.nvidia.com/parentUUID`` keeps a claim's parts on one card."""
    whole = {name: device.attributes["uuid"].string for name, device in devices(node).items() if "-mig-" not in name}
    for name, device in devices(node).items():
        if "-mig-" in name:
            assert device.attributes["parentUUID"].string == whole[name.split("-mig-")[0]]


def nvidia(kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind, **fields}


@pytest.mark.parametrize(
    "config",
    [
        nvidia("GpuConfig"),
        nvidia("GpuConfig", sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Medium"}}),
        nvidia(
            "GpuConfig",
            sharing={
                "strategy": "MPS",
                "mpsConfig": {"defaultActiveThreadPercentage": 50, "defaultPinnedDeviceMemoryLimit": "10Gi"},
            },
        ),
    ],
    ids=["nothing", "time slices", "MPS"],
)
def test_gpu_configs_are_accepted_as_they_are(node: OneNode, config: dict[str, Any]) -> None:
    device = next(name for name in sorted(node.devices()) if "-mig-" not in name)
    claim = node.allocate(f"gpu-{len(str(config))}", [device], configs=[config])
    node.prepare(claim)
    node.unprepare(claim)


@pytest.mark.parametrize(
    "config",
    [nvidia("MigDeviceConfig"), nvidia("MigDeviceConfig", sharing={"strategy": "MPS", "mpsConfig": {"multiUser": True}})],
    ids=["nothing", "MPS"],
)
def test_mig_configs_are_accepted_as_they_are(node: OneNode, config: dict[str, Any]) -> None:
    device = next(name for name in sorted(node.devices()) if "-mig-2g-20gb-" in name)
    claim = node.allocate(f"mig-{len(str(config))}", [device], configs=[config])
    node.prepare(claim)
    node.unprepare(claim)


def test_what_is_not_built_is_refused_and_never_ignored(node: OneNode) -> None:
    """VFIO and compute domains are NVIDIA's own for now: a pod must not run as if it had been given them."""
    device = next(name for name in sorted(node.devices()) if "-mig-" not in name)
    claim = node.allocate("vfio", [device], configs=[nvidia("VfioDeviceConfig")])
    with pytest.raises(CallFailed, match=r"VfioDeviceConfig.* is not one of GpuConfig, MigDeviceConfig"):
        node.prepare(claim)
