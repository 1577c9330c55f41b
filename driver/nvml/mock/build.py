"""A machine document to a ``Machine``: looks boards up, lays the links, works the PCIe levels out. Pure.

Every complaint is a ``MachineInvalid`` that has the path in the document and what would be right there.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from driver.errors import MachineInvalid
from driver.names import PciAddress
from driver.nvml import enums
from driver.nvml.library import Code, FabricInfo
from driver.nvml.mock.boards import build_board
from driver.nvml.mock.document import (
    MAX_GPUS,
    BoardDocument,
    FabricDocument,
    GpusDocument,
    MachineDocument,
    MigStartDocument,
    MigTableDocument,
)
from driver.nvml.mock.faults import find_bad_gpu
from driver.nvml.mock.levels import build_levels
from driver.nvml.mock.model import Board, Machine, MockGpu
from driver.nvml.mock.wiring import build_ports

_NAMESPACE = uuid.UUID("6d0c1b1e-9a55-5a0e-8f0e-3a3a8b1f5d11")
"""Ours; it makes the UUIDs of mock GPUs the same in every process."""

_FABRIC_STATES = {
    "not-started": enums.FabricState.NOT_STARTED,
    "in-progress": enums.FabricState.IN_PROGRESS,
    "completed": enums.FabricState.COMPLETED,
}

_T = TypeVar("_T")


def build_machine(
    document: MachineDocument,
    *,
    boards: Mapping[str, BoardDocument],
    mig_tables: Mapping[str, MigTableDocument],
    seed: str,
) -> Machine:
    """The machine that ``document`` says, with ``boards`` and ``mig_tables`` as the catalogue.

    Two seeds give two machines that differ in their GPUs' UUIDs alone.

    Raises:
        MachineInvalid: the document contradicts itself or the catalogue.
    """
    gpus = tuple(_build_gpus(document, {**boards, **document.boards}, {**mig_tables, **document.mig_tables}, seed))
    _check_gpus(gpus)
    switches = [path for group in document.gpus for path in _spread(group.switch, group, "switch")]
    faults = tuple(document.faults)
    bad = find_bad_gpu(faults, len(gpus))
    if bad is not None:
        raise MachineInvalid(bad)
    return Machine(
        name=document.name,
        seed=seed,
        driver_version=document.driver,
        cuda_driver_version=_parse_cuda(document.cuda),
        gpus=build_ports(gpus, document.nvlink),
        levels=build_levels(gpus, switches, document.levels),
        fabric=None if document.fabric is None else _build_fabric(document.fabric),
        virtualization_mode=enums.VirtualizationMode[document.virtualization.upper()],
        faults=faults,
    )


def _parse_cuda(text: str) -> int:
    major, minor = text.split(".")
    return int(major) * 1000 + int(minor) * 10


def _build_fabric(document: FabricDocument) -> FabricInfo:
    return FabricInfo(
        cluster_uuid=uuid.UUID(document.cluster).bytes,
        clique_id=document.clique,
        state=_FABRIC_STATES[document.state],
        status=Code.SUCCESS,
    )


def _spread(value: _T | list[_T], group: GpusDocument, field: str) -> Sequence[_T]:
    """One value a GPU of the group: a list has as many as the group has GPUs."""
    if not isinstance(value, list):
        return [value] * len(group.pci)
    if len(value) != len(group.pci):
        raise MachineInvalid(f"$.gpus[..].{field}: {len(value)} entries, but pci has {len(group.pci)} (first: {group.pci[0]})")
    return value


def _spread_list(value: list[_T | None] | None, group: GpusDocument, field: str) -> Sequence[_T | None]:
    return [None] * len(group.pci) if value is None else _spread(value, group, field)


def _build_gpus(
    document: MachineDocument,
    boards: Mapping[str, BoardDocument],
    mig_tables: Mapping[str, MigTableDocument],
    seed: str,
) -> Iterator[MockGpu]:
    index = 0
    for place, group in enumerate(document.gpus):
        if group.board not in boards:
            raise MachineInvalid(f"$.gpus[{place}].board: no board {group.board!r}; known: {', '.join(sorted(boards))}")
        board = build_board(group.board, boards[group.board], mig_tables)
        instances = _build_instances(place, group.mig, board)
        columns = (
            _spread(group.numa, group, "numa"),
            _spread(group.root, group, "root"),
            _spread_list(group.minors, group, "minors"),
            _spread_list(group.modules, group, "modules"),
            _spread_list(group.uuids, group, "uuids"),
        )
        for pci_text, numa, root, minor, module, fixed_uuid in zip(group.pci, *columns, strict=True):
            pci = PciAddress.parse(pci_text)
            yield MockGpu(
                board=board,
                pci=pci,
                uuid=fixed_uuid or f"GPU-{uuid.uuid5(_NAMESPACE, f'{document.name}@{seed}/{pci}')}",
                minor=index if minor is None else minor,
                module_id=module,
                numa_node=numa,
                pcie_root=root,
                ports=(),
                mig_is_enabled=group.mig is not None and group.mig.enabled,
                mig_instances=instances,
            )
            index += 1


def _build_instances(place: int, start: MigStartDocument | None, board: Board) -> tuple[tuple[int, int], ...]:
    if start is None:
        return ()
    if board.mig is None:
        raise MachineInvalid(f"$.gpus[{place}].mig: {board.product} has no MIG: leave it away")
    if start.instances and not start.enabled:
        raise MachineInvalid(f"$.gpus[{place}].mig.instances: there are none while MIG is not enabled")
    return tuple((instance.profile, instance.start) for instance in start.instances)


def _check_gpus(gpus: Sequence[MockGpu]) -> None:
    if len(gpus) > MAX_GPUS:
        raise MachineInvalid(f"$.gpus: {len(gpus)} GPUs, but a machine has at most {MAX_GPUS}")
    for (first, low), (second, high) in itertools.combinations(enumerate(gpus), 2):
        for field in ("pci", "uuid", "minor"):
            if getattr(low, field) == getattr(high, field):
                raise MachineInvalid(f"$.gpus: GPU {first} and GPU {second} have the same {field}, {getattr(low, field)}")
