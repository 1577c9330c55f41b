"""The boards of a recorded machine: the catalogue's name where it has the same one, else the board itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args, get_type_hints

from driver.errors import MachineInvalid
from driver.nvml.mock.boards import build_mig_table
from driver.nvml.mock.document import BoardDocument, MigProfileDocument, MigTableDocument
from driver.nvml.readings import GpuReading, MigProfile

_SLUG = re.compile(r"[^a-z0-9]+")
_MIB = 1024 * 1024
_ARCHITECTURES = {"Ada Lovelace": "Ada"}
_HINTS = get_type_hints(BoardDocument)
_KNOWN_ARCHITECTURES = frozenset(get_args(_HINTS["architecture"]))
_KNOWN_BRANDS = frozenset(get_args(_HINTS["brand"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedGpu:
    """One GPU as it was read."""

    reading: GpuReading
    device_id: int
    """PCI's, without the vendor's half."""
    mig_table: tuple[MigProfile, ...]
    """Empty where NVML did not tell."""
    mig_instances: tuple[tuple[int, int], ...]
    """Profile id and start of each GPU instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The boards and MIG tables that every machine file may name."""

    boards: Mapping[str, BoardDocument]
    mig_tables: Mapping[str, MigTableDocument]


@dataclass(kw_only=True)
class Boards:
    """Names for the GPUs' boards, in order, and the boards and tables that the file itself must bring."""

    names: list[str] = field(default_factory=list)
    boards: dict[str, BoardDocument] = field(default_factory=dict)
    mig_tables: dict[str, MigTableDocument] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def build_boards(gpus: Sequence[RecordedGpu], catalogue: Catalogue) -> Boards:
    """A board for each of ``gpus``.

    Raises:
        MachineInvalid: a GPU is of a kind that machine files have no word for.
    """
    boards = Boards()
    for gpu in gpus:
        document = _build_board(gpu, _name_mig_table(gpu, catalogue, boards), boards)
        known = {**catalogue.boards, **boards.boards}
        name = next((name for name, each in known.items() if each == document), None)
        if name is None:
            name = _unused(build_slug(gpu.reading.product_name), known)
            boards.boards[name] = document
        boards.names.append(name)
    boards.notes = list(dict.fromkeys(boards.notes))
    return boards


def build_slug(text: str) -> str:
    """A text as a name that machine files take: lower case, digits and dashes, at most 50 characters."""
    return _SLUG.sub("-", text.lower())[:50].strip("-") or "gpu"


def _build_board(gpu: RecordedGpu, mig: str | None, boards: Boards) -> BoardDocument:
    reading = gpu.reading
    architecture = _ARCHITECTURES.get(reading.architecture or "", reading.architecture or "")
    if architecture not in _KNOWN_ARCHITECTURES or reading.cuda_compute_capability is None:
        known = ", ".join(sorted(_KNOWN_ARCHITECTURES))
        raise MachineInvalid(
            f"GPU {reading.index} ({reading.product_name}): a machine file has no word for architecture {reading.architecture}"
            f" with compute capability {reading.cuda_compute_capability}; it knows {known}"
        )
    brand = reading.brand if reading.brand in _KNOWN_BRANDS else "Unknown"
    if brand != reading.brand:
        boards.notes.append(f"the brand {reading.brand} of {reading.product_name} becomes Unknown")
    major, minor = reading.cuda_compute_capability
    document = {
        "product": reading.product_name,
        "brand": brand,
        "architecture": architecture,
        "compute": f"{major}.{minor}",
        "device_id": gpu.device_id,
        "memory_mib": None if reading.memory_bytes is None else reading.memory_bytes // _MIB,
        "nvlinks": max((link.link + 1 for link in reading.nvlinks), default=0),
        "addressing": reading.addressing_mode,
        "fabric": reading.fabric is not None,
        "mig": mig,
    }
    return BoardDocument(**document)  # type: ignore[arg-type]  # checked when the file is read back


def _name_mig_table(gpu: RecordedGpu, catalogue: Catalogue, boards: Boards) -> str | None:
    """The table's name. Where NVML did not tell the profiles, a board of the same product in the catalogue does."""
    if not gpu.mig_table:
        same = (each for each in catalogue.boards.values() if each.product == gpu.reading.product_name)
        return next((each.mig for each in same if each.mig is not None), None)
    known = {**catalogue.mig_tables, **boards.mig_tables}
    told = {each.number: (each.info, tuple(sorted(each.placements))) for each in gpu.mig_table}
    for name, document in known.items():
        profiles = build_mig_table(name, document).profiles
        if told == {each.number: (each.info, tuple(sorted(each.placements))) for each in profiles}:
            return name
    name = _unused(build_slug(f"mig-{gpu.reading.product_name}"), known)
    boards.mig_tables[name] = _build_mig_table(gpu.mig_table)
    return name


def _build_mig_table(table: tuple[MigProfile, ...]) -> MigTableDocument:
    return MigTableDocument(
        memory_slices=max(place.start + place.size for profile in table for place in profile.placements),
        compute_slices=max(profile.info.slice_count for profile in table),
        profiles=[_build_profile(profile) for profile in table],
    )


def _build_profile(profile: MigProfile) -> MigProfileDocument:
    info = profile.info
    return MigProfileDocument(
        number=profile.number,
        id=info.id,
        slices=info.slice_count,
        count=info.instance_count,
        starts=[place.start for place in sorted(profile.placements)],
        size=profile.placements[0].size,
        sm=info.multiprocessor_count,
        memory_mib=info.memory_size_mib,
        ce=info.copy_engine_count,
        dec=info.decoder_count,
        enc=info.encoder_count,
        jpeg=info.jpeg_count,
        ofa=info.ofa_count,
    )


def _unused(name: str, known: Mapping[str, object]) -> str:
    return next(each for each in (name, *(f"{name}-{number}" for number in range(2, 1000))) if each not in known)
