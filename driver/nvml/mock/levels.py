"""How far apart two mock GPUs are on PCIe. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from driver.errors import MachineInvalid
from driver.nvml.mock.document import LevelName
from driver.nvml.mock.model import MockGpu
from driver.nvml.readings import PcieLevel


def build_levels(
    gpus: Sequence[MockGpu], switches: Sequence[str | None], written: Mapping[LevelName, list[str]]
) -> Mapping[tuple[int, int], PcieLevel]:
    """The level of every pair, by index: as ``written``, else as root, switch and NUMA node say.

    Raises:
        MachineInvalid: a written pair is no pair of the machine, or is there twice.
    """
    levels = {
        (first, second): _derive_level(gpus[first], gpus[second], switches[first], switches[second])
        for first, second in itertools.combinations(range(len(gpus)), 2)
    }
    seen: set[tuple[int, int]] = set()
    for name, pairs in written.items():
        for text in pairs:
            pair = parse_pair(text, len(gpus), f"$.levels.{name}")
            if pair in seen:
                raise MachineInvalid(f"$.levels.{name}: the pair {text} is there twice")
            seen.add(pair)
            levels[pair] = PcieLevel[name]
    return levels


def parse_pair(text: str, gpu_count: int, path: str) -> tuple[int, int]:
    """``0-3`` as two indices of the machine, the lower first.

    Raises:
        MachineInvalid: one of them is no GPU, or both are the same.
    """
    first, second = sorted(int(number) for number in text.split("-"))
    if first == second or second >= gpu_count:
        raise MachineInvalid(f"{path}: {text} is no pair of two of the machine's GPUs 0 to {gpu_count - 1}")
    return first, second


def _derive_level(first: MockGpu, second: MockGpu, first_switch: str | None, second_switch: str | None) -> PcieLevel:
    if first.pcie_root is not None and first.pcie_root == second.pcie_root:
        return _derive_level_below_root(first_switch, second_switch)
    if first.numa_node >= 0 and first.numa_node == second.numa_node:
        return PcieLevel.NODE
    return PcieLevel.SYS


def _derive_level_below_root(first_switch: str | None, second_switch: str | None) -> PcieLevel:
    if first_switch is None or second_switch is None:
        return PcieLevel.PHB
    if first_switch == second_switch:
        return PcieLevel.PIX
    return PcieLevel.PXB if first_switch.split("/")[0] == second_switch.split("/")[0] else PcieLevel.PHB
