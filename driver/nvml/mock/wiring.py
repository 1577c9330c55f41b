"""NVLinks of a machine document to each GPU's ports. Pure.

A direct link takes a port at both ends. Ports are numbered as the peers are, lowest first; links to switches go round the
switches. So the same document gives the same ports, always.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from driver.errors import MachineInvalid
from driver.names import PciAddress
from driver.nvml.mock.document import NvLinkDocument
from driver.nvml.mock.levels import parse_pair
from driver.nvml.mock.model import MockGpu, Port


def build_ports(gpus: tuple[MockGpu, ...], document: NvLinkDocument | None) -> tuple[MockGpu, ...]:
    """The GPUs with their ports.

    Raises:
        MachineInvalid: the links contradict themselves, or need more ports than a board has.
    """
    if document is None:
        return tuple(replace(gpu, ports=(None,) * gpu.board.nvlink_ports) for gpu in gpus)
    forms = [name for name in ("switches", "pairs", "matrix") if getattr(document, name) is not None]
    if len(forms) != 1:
        raise MachineInvalid(f"$.nvlink: exactly one of switches, pairs and matrix says the links, not {forms or 'none'}")
    if document.switches is not None:
        return tuple(_build_switched(gpu, [PciAddress.parse(text) for text in document.switches]) for gpu in gpus)
    matrix = _build_matrix(document, len(gpus))
    return tuple(_build_direct(gpus, index, row) for index, row in enumerate(matrix))


def _build_switched(gpu: MockGpu, switches: Sequence[PciAddress]) -> MockGpu:
    ports = tuple(Port(remote_pci=switches[link % len(switches)], peer=None) for link in range(gpu.board.nvlink_ports))
    return replace(gpu, ports=ports)


def _build_direct(gpus: Sequence[MockGpu], index: int, row: Sequence[int]) -> MockGpu:
    gpu = gpus[index]
    ports = [Port(remote_pci=gpus[peer].pci, peer=peer) for peer, count in enumerate(row) for _ in range(count)]
    if len(ports) > gpu.board.nvlink_ports:
        raise MachineInvalid(f"$.nvlink: GPU {index} has {len(ports)} links, but its board has {gpu.board.nvlink_ports} ports")
    return replace(gpu, ports=(*ports, *(None,) * (gpu.board.nvlink_ports - len(ports))))


def _build_matrix(document: NvLinkDocument, gpu_count: int) -> list[list[int]]:
    if document.matrix is not None:
        _check_matrix(document.matrix, gpu_count)
        return document.matrix
    matrix = [[0] * gpu_count for _ in range(gpu_count)]
    for text, count in (document.pairs or {}).items():
        first, second = parse_pair(text, gpu_count, "$.nvlink.pairs")
        if matrix[first][second]:
            raise MachineInvalid(f"$.nvlink.pairs: the pair {text} is there twice")
        matrix[first][second] = matrix[second][first] = count
    return matrix


def _check_matrix(matrix: list[list[int]], gpu_count: int) -> None:
    if len(matrix) != gpu_count or any(len(row) != gpu_count for row in matrix):
        raise MachineInvalid(f"$.nvlink.matrix: must have {gpu_count} rows of {gpu_count} numbers, as many as there are GPUs")
    for first in range(gpu_count):
        for second in range(first + 1):
            if matrix[first][second] != matrix[second][first] or (first == second and matrix[first][first]):
                raise MachineInvalid(
                    f"$.nvlink.matrix[{first}][{second}]: must be what [{second}][{first}] is, and 0 where both are the same;"
                    " a link that only one end calls up is a fault of kind link-down"
                )
