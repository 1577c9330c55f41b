"""The NVLinks of a recorded machine: the links as laid, and what is down as faults. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from driver.names import PciAddress
from driver.nvml.mock.document import NvLinkDocument
from driver.nvml.mock.faults import LinkDown
from driver.nvml.readings import GpuReading, NvLinkReading, RemoteType

_OUTSIDE = PciAddress(0xFFFF, 0xFF, 0x1F, 7)
"""A switch whose address NVML does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The links of the file, the faults that take some of them down, and what could not be said."""

    document: NvLinkDocument | None
    faults: tuple[LinkDown, ...]
    notes: tuple[str, ...]


def build_wiring(gpus: Sequence[GpuReading | None], addresses: Sequence[PciAddress], port_counts: Sequence[int]) -> Wiring:
    """The links between GPUs, by their number in the file. None stands for a GPU of which only the address is known.

    ``port_counts`` has the ports of each one's board.
    """
    switches = {_remote(link) for gpu in gpus if gpu for link in gpu.nvlinks if _leads_to(link, RemoteType.SWITCH)}
    if switches:
        return _build_switched(gpus, sorted(switches), port_counts)
    return _build_direct(gpus, {pci: number for number, pci in enumerate(addresses)})


def _leads_to(link: NvLinkReading, *kinds: RemoteType) -> bool:
    return link.is_active and link.remote_type in kinds


def _remote(link: NvLinkReading) -> PciAddress:
    return link.remote_pci or _OUTSIDE


def _build_switched(gpus: Sequence[GpuReading | None], switches: Sequence[PciAddress], port_counts: Sequence[int]) -> Wiring:
    """In a file with switches every port goes to one, so what does not is down."""
    faults, notes = [], []
    for number, gpu in enumerate(gpus):
        if gpu is None:
            continue
        up = {link.link for link in gpu.nvlinks if _leads_to(link, RemoteType.SWITCH)}
        down = [link for link in range(port_counts[number]) if link not in up]
        if down:
            faults.append(LinkDown(gpu=number, links=tuple(down) if up else None))
        notes += _note_lost(
            number, (link for link in gpu.nvlinks if link.is_active and link.link not in up), "beside its switches"
        )
    document = NvLinkDocument(switches=[str(pci) for pci in switches])
    return Wiring(document=document, faults=tuple(faults), notes=tuple(notes))


def _build_direct(gpus: Sequence[GpuReading | None], numbers: Mapping[PciAddress, int]) -> Wiring:
    notes: list[str] = []
    seen: list[Counter[int]] = []
    for number, gpu in enumerate(gpus):
        active = [link for link in gpu.nvlinks if link.is_active] if gpu else []
        to_gpus = [
            link for link in active if _leads_to(link, RemoteType.GPU, RemoteType.UNKNOWN) and link.remote_pci in numbers
        ]
        seen.append(Counter(numbers[_remote(link)] for link in to_gpus))
        notes += _note_lost(number, (link for link in active if link not in to_gpus), "that lead to no GPU of this machine")
    laid = {(a, b): max(seen[a][b], seen[b][a]) for a, b in combinations(range(len(gpus)), 2) if seen[a][b] or seen[b][a]}
    if not laid:
        return Wiring(document=None, faults=(), notes=tuple(notes))
    document = NvLinkDocument(pairs={f"{a}-{b}": count for (a, b), count in laid.items()})
    faults = [fault for number, gpu in enumerate(gpus) if gpu for fault in _find_down(number, seen[number], laid)]
    return Wiring(document=document, faults=tuple(faults), notes=tuple(notes))


def _find_down(number: int, seen: Mapping[int, int], laid: Mapping[tuple[int, int], int]) -> list[LinkDown]:
    """Links that the other end calls up and this one does not, by the port numbers that the file's GPU will have."""
    faults, port = [], 0
    for peer in sorted(a if b == number else b for a, b in laid if number in (a, b)):
        count = laid[min(number, peer), max(number, peer)]
        missing = count - seen.get(peer, 0)
        if missing:
            links = None if missing == count else tuple(range(port, port + missing))
            faults.append(LinkDown(gpu=number, peer=peer if links is None else None, links=links))
        port += count
    return faults


def _note_lost(number: int, links: Iterable[NvLinkReading], what: str) -> list[str]:
    lost = [link.link for link in links]
    return [f"GPU {number}: NVLinks {what} are left out: {lost}"] if lost else []
