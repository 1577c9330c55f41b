"""What was read of a machine, as a mock machine file that plays it. Pure.

A GPU's number in the file is its NVML index. What the file has no words for becomes a note, never a silent loss.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec

from driver.cli.recorded_boards import Boards, Catalogue, RecordedGpu, build_boards, build_slug
from driver.cli.recorded_links import build_wiring
from driver.errors import MachineInvalid
from driver.names import PciAddress
from driver.nvml.mock.build import build_machine
from driver.nvml.mock.document import (
    FabricDocument,
    GpusDocument,
    LevelName,
    MachineDocument,
    MigInstanceDocument,
    MigStartDocument,
)
from driver.nvml.mock.faults import CallFails, Fault, GpuLost
from driver.nvml.readings import GpuFailure, GpuReading, MachineReading, PcieLevel

Virtualization = Literal["none", "passthrough", "vgpu"]

_CLUSTERS = uuid.UUID("7a0a4bb4-4a4e-5b55-9d3c-2f0e6f1c9b10")
"""Trays of one rack keep one cluster when each is recorded, and nobody learns which."""
_NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
_DRIVER = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){1,3}")

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A machine as it was read."""

    reading: MachineReading
    gpus: tuple[RecordedGpu, ...]
    """Those that answered."""
    virtualization: Virtualization


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The machine file, and what it could not say."""

    document: MachineDocument
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A GPU of the file; one that failed has only its address and the board of its neighbours."""

    pci: PciAddress
    gpu: RecordedGpu
    is_failed: bool

    @property
    def reading(self) -> GpuReading | None:
        return None if self.is_failed else self.gpu.reading


def build_recorded(recording: Recording, catalogue: Catalogue, *, name: str, with_identifiers: bool) -> Recorded:
    """The machine file of ``recording``. Without identifiers no UUID of a GPU or of a fabric's cluster is in it.

    Raises:
        MachineInvalid: the machine has something that machine files have no word for.
    """
    places, notes = _build_places(recording)
    if not places:
        raise MachineInvalid("no GPU answers, so there is nothing to record; `gpu-dra inspect` says why")
    boards = build_boards([place.gpu for place in places], catalogue)
    known = {**catalogue.boards, **boards.boards}
    wiring = build_wiring(
        [place.reading for place in places], [place.pci for place in places], [known[name].nvlinks for name in boards.names]
    )
    faults = [*wiring.faults, *_build_faults(places, recording.reading.failures)]
    fabric, fabric_notes = _build_fabric(recording.reading.gpus, with_identifiers=with_identifiers)
    cuda = recording.reading.cuda_driver_version or (0, 0)
    document = MachineDocument(
        name=name,
        description=f"Recorded by gpu-dra record, identifiers {'as they are' if with_identifiers else 'replaced'}",
        driver=_driver_version(recording.reading.driver_version),
        cuda=f"{cuda[0]}.{cuda[1]}",
        gpus=_build_groups(places, boards, with_identifiers=with_identifiers),
        nvlink=wiring.document,
        fabric=fabric,
        virtualization=recording.virtualization,
        boards=boards.boards,
        mig_tables=boards.mig_tables,
        faults=faults,
    )
    document, level_notes = _with_levels(document, places, recording.reading, catalogue)
    return Recorded(document=document, notes=(*notes, *boards.notes, *wiring.notes, *fabric_notes, *level_notes))


def build_name(gpus: Sequence[GpuReading]) -> str:
    """``recorded-8x-nvidia-h100-80gb-hbm3``."""
    return f"recorded-{len(gpus)}x-{build_slug(gpus[0].product_name)}" if gpus else "recorded"


def _driver_version(text: str) -> str:
    if _DRIVER.fullmatch(text) is None:
        raise MachineInvalid(f"the driver's version {text[:80]!r} has no form in a machine file: numbers with dots are needed")
    return text


def _build_places(recording: Recording) -> tuple[list[_Place], list[str]]:
    by_index = {gpu.reading.index: _Place(pci=gpu.reading.pci, gpu=gpu, is_failed=False) for gpu in recording.gpus}
    notes = []
    for failure in recording.reading.failures:
        if failure.pci is None or not recording.gpus:
            notes.append(f"GPU {failure.index} is left out, since its address is not known: {failure.reason}")
        else:
            by_index[failure.index] = _Place(pci=failure.pci, gpu=recording.gpus[0], is_failed=True)
    return [by_index[index] for index in sorted(by_index)], notes


def _build_faults(places: Sequence[_Place], failures: Sequence[GpuFailure]) -> list[Fault]:
    lost = {failure.pci for failure in failures if failure.is_lost}
    return [
        GpuLost(gpu=number) if place.pci in lost else CallFails(call="nvmlDeviceGetUUID", code="UNKNOWN", gpu=number)
        for number, place in enumerate(places)
        if place.is_failed
    ]


def _build_fabric(gpus: Sequence[GpuReading], *, with_identifiers: bool) -> tuple[FabricDocument | None, list[str]]:
    fabrics = list(dict.fromkeys(gpu.fabric for gpu in gpus if gpu.fabric is not None))
    if not fabrics:
        return None, []
    notes = [f"the GPUs say {len(fabrics)} different fabrics; the first is kept for all"] if len(fabrics) > 1 else []
    first = fabrics[0]
    keep = with_identifiers or first.cluster_uuid == _NO_CLUSTER
    cluster = first.cluster_uuid if keep else str(uuid.uuid5(_CLUSTERS, first.cluster_uuid))
    state: Literal["completed", "in-progress"] = "completed" if first.is_complete else "in-progress"
    return FabricDocument(cluster=cluster, clique=first.clique_id, state=state), notes


def _build_groups(places: Sequence[_Place], boards: Boards, *, with_identifiers: bool) -> list[GpusDocument]:
    """Neighbours with one board and one MIG state share a group."""

    def key(numbered: tuple[int, _Place]) -> tuple[object, ...]:
        number, place = numbered
        reading = place.reading
        return boards.names[number], reading is not None and (reading.is_mig_enabled, place.gpu.mig_instances)

    groups = []
    for _, members in itertools.groupby(enumerate(places), key):
        numbers, group = zip(*members, strict=True)
        groups.append(_build_group(boards.names[numbers[0]], numbers, group, with_identifiers=with_identifiers))
    return groups


def _build_group(board: str, numbers: Sequence[int], group: Sequence[_Place], *, with_identifiers: bool) -> GpusDocument:
    readings = [place.reading for place in group]
    numa = [-1 if each is None or each.numa_node is None else each.numa_node for each in readings]
    roots = [None if each is None else each.pcie_root for each in readings]
    minors = [None if each is None else each.minor for each in readings]
    modules = [None if each is None else each.module_id for each in readings]
    uuids = [None if each is None else str(each.uuid) for each in readings]
    return GpusDocument(
        board=board,
        pci=[str(place.pci) for place in group],
        numa=numa[0] if len(set(numa)) == 1 else numa,
        root=roots[0] if len(set(roots)) == 1 else roots,
        minors=None if all(minor in (None, number) for number, minor in zip(numbers, minors, strict=True)) else minors,
        modules=None if set(modules) == {None} else modules,
        uuids=uuids if with_identifiers else None,
        mig=_build_mig_start(group[0]),
    )


def _build_mig_start(place: _Place) -> MigStartDocument | None:
    if place.reading is None or not place.reading.is_mig_enabled:
        return None
    instances = [MigInstanceDocument(profile=profile, start=start) for profile, start in place.gpu.mig_instances]
    return MigStartDocument(enabled=True, instances=instances)


def _with_levels(
    document: MachineDocument, places: Sequence[_Place], reading: MachineReading, catalogue: Catalogue
) -> tuple[MachineDocument, list[str]]:
    """The PCIe levels that do not follow from root and NUMA node, written out."""
    derived = build_machine(document, boards=catalogue.boards, mig_tables=catalogue.mig_tables, seed="").levels
    levels: dict[LevelName, list[str]] = {}
    unknown = []
    for (a, low), (b, high) in itertools.combinations(enumerate(places), 2):
        level = reading.pcie_levels.get((min(low.pci, high.pci), max(low.pci, high.pci)), PcieLevel.UNKNOWN)
        if level is PcieLevel.UNKNOWN:
            unknown += [f"{a}-{b}"] if low.reading and high.reading else []
        elif level is not derived[a, b]:
            levels.setdefault(_level_name(level), []).append(f"{a}-{b}")
    notes = (
        [f"NVML did not tell the PCIe level of {', '.join(unknown)}; it is taken from root and NUMA node"] if unknown else []
    )
    return msgspec.structs.replace(document, levels=levels), notes


def _level_name(level: PcieLevel) -> LevelName:
    """Two GPUs on one board hang behind that board's switch."""
    names: dict[PcieLevel, LevelName] = {
        PcieLevel.SAME_BOARD: "PIX",
        PcieLevel.PIX: "PIX",
        PcieLevel.PXB: "PXB",
        PcieLevel.PHB: "PHB",
        PcieLevel.NODE: "NODE",
    }
    return names.get(level, "SYS")
