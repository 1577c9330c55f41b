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


Pair = tuple[int, int]
"""Two GPUs of the file, the lower number first."""


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
    return _build_direct(gpus, {pci: number for number, pci in enumerate(addresses)}, port_counts)


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


def _build_direct(gpus: Sequence[GpuReading | None], numbers: Mapping[PciAddress, int], port_counts: Sequence[int]) -> Wiring:
    notes: list[str] = []
    ports: list[dict[int, int]] = []
    for number, gpu in enumerate(gpus):
        active = [link for link in gpu.nvlinks if link.is_active] if gpu else []
        to_gpus = [
            link for link in active if _leads_to(link, RemoteType.GPU, RemoteType.UNKNOWN) and link.remote_pci in numbers
        ]
        ports.append({link.link: numbers[_remote(link)] for link in to_gpus})
        notes += _note_lost(number, (link for link in active if link not in to_gpus), "that lead to no GPU of this machine")
    seen = [Counter(each.values()) for each in ports]
    laid = {(a, b): max(seen[a][b], seen[b][a]) for a, b in combinations(range(len(gpus)), 2) if seen[a][b] or seen[b][a]}
    if not laid:
        return Wiring(document=None, faults=(), notes=tuple(notes))
    kept = lay_ports(ports, laid, port_counts)
    if kept is None and any(each and len(each) <= max(each) for each in ports):
        notes.append("which NVLink ports are down is not kept, only how many: in a machine file ports go in order of the peer")
    counts = kept or laid
    document = NvLinkDocument(pairs={f"{a}-{b}": count for (a, b), count in counts.items()})
    blocks = [_blocks(number, counts) for number in range(len(gpus))]
    missed = [
        _miss_counted(seen[number], each) if kept is None else _miss_numbered(ports[number], each)
        for number, each in enumerate(blocks)
    ]
    faults = [fault for number, gpu in enumerate(gpus) if gpu for fault in _find_down(number, missed[number], counts)]
    return Wiring(document=document, faults=tuple(faults), notes=tuple(notes))


def lay_ports(
    ports: Sequence[Mapping[int, int]], laid: Mapping[Pair, int], port_counts: Sequence[int]
) -> dict[Pair, int] | None:
    """Links for each pair with which every port that is up has the number that it was read with, or None where there are none.

    ``ports`` has for each GPU its ports that are up, and the peer of each. A number that is left out is a link that is down, of
    the pair after it or the pair before it: nobody told, and both look the same.
    """
    for goes_to_earlier in (False, True):
        counts = dict(laid)
        while all(_size(number, counts) <= count for number, count in enumerate(port_counts)):
            short = _find_short(ports, counts, goes_to_earlier=goes_to_earlier)
            if short is None:
                if all(_is_kept(each, _blocks(number, counts)) for number, each in enumerate(ports)):
                    return counts
                break
            counts[short] += 1
    return None


def _blocks(number: int, counts: Mapping[Pair, int]) -> dict[int, range]:
    """The ports to each peer, as the mock machine gives them: in order of the peer."""
    blocks, port = {}, 0
    for peer in sorted(a if b == number else b for a, b in counts if number in (a, b)):
        count = counts[_pair(number, peer)]
        blocks[peer] = range(port, port + count)
        port += count
    return blocks


def _pair(a: int, b: int) -> Pair:
    return min(a, b), max(a, b)


def _size(number: int, counts: Mapping[Pair, int]) -> int:
    return sum(count for pair, count in counts.items() if number in pair)


def _find_short(ports: Sequence[Mapping[int, int]], counts: Mapping[Pair, int], *, goes_to_earlier: bool) -> Pair | None:
    """The pair that needs a link more, so that a port which was seen lies among those to its peer."""
    for number, peers in enumerate(ports):
        earlier = None
        for peer, block in _blocks(number, counts).items():
            seen = [port for port, other in peers.items() if other == peer]
            if seen and max(seen) >= block.stop:
                can_move = goes_to_earlier and min(seen) > block.start
                return earlier if can_move and earlier is not None else _pair(number, peer)
            earlier = _pair(number, peer)
    return None


def _is_kept(peers: Mapping[int, int], blocks: Mapping[int, range]) -> bool:
    return all(port in blocks[peer] for port, peer in peers.items())


def _miss_numbered(peers: Mapping[int, int], blocks: Mapping[int, range]) -> dict[int, tuple[int, ...]]:
    """Of the ports to each peer those that are down."""
    return {peer: tuple(port for port in block if peers.get(port) != peer) for peer, block in blocks.items()}


def _miss_counted(seen: Mapping[int, int], blocks: Mapping[int, range]) -> dict[int, tuple[int, ...]]:
    """So many are down, whichever: the first."""
    return {peer: tuple(block)[: len(block) - seen.get(peer, 0)] for peer, block in blocks.items()}


def _find_down(number: int, missed: Mapping[int, tuple[int, ...]], counts: Mapping[Pair, int]) -> list[LinkDown]:
    """Links of the file that this GPU calls down, by the port numbers that the file's GPU will have."""
    faults = []
    for peer, links in missed.items():
        is_all = len(links) == counts[_pair(number, peer)]
        if links:
            faults.append(LinkDown(gpu=number, peer=peer if is_all else None, links=None if is_all else links))
    return faults


def _note_lost(number: int, links: Iterable[NvLinkReading], what: str) -> list[str]:
    lost = [link.link for link in links]
    return [f"GPU {number}: NVLinks {what} are left out: {lost}"] if lost else []
