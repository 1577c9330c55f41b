"""Board and MIG table documents to values. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from driver.errors import MachineInvalid
from driver.nvml import enums
from driver.nvml.library import GpuInstanceProfileInfo, Placement
from driver.nvml.mock.document import BoardDocument, MigProfileDocument, MigTableDocument
from driver.nvml.mock.model import Board, MigTable
from driver.nvml.readings import MigProfile

_BRANDS = {
    "Unknown": enums.Brand.UNKNOWN,
    "Quadro": enums.Brand.QUADRO,
    "Tesla": enums.Brand.TESLA,
    "GeForce": enums.Brand.GEFORCE,
    "Titan": enums.Brand.TITAN,
    "QuadroRTX": enums.Brand.QUADRO_RTX,
    "NvidiaRTX": enums.Brand.NVIDIA_RTX,
    "Nvidia": enums.Brand.NVIDIA,
}


def build_board(name: str, document: BoardDocument, mig_tables: Mapping[str, MigTableDocument]) -> Board:
    """The board ``name``.

    Raises:
        MachineInvalid: its MIG table is missing or contradicts itself.
    """
    if document.mig is not None and document.mig not in mig_tables:
        raise MachineInvalid(f"board {name}: mig: no table {document.mig!r}; known: {', '.join(sorted(mig_tables))}")
    major, minor = document.compute.split(".")
    return Board(
        product=document.product,
        brand=_BRANDS[document.brand],
        architecture=enums.Architecture[document.architecture.upper()],
        compute_capability=(int(major), int(minor)),
        device_id=document.device_id << 16 | enums.NVIDIA_VENDOR_ID,
        memory_bytes=None if document.memory_mib is None else document.memory_mib * 1024 * 1024,
        nvlink_ports=document.nvlinks,
        addressing_mode=None if document.addressing is None else enums.AddressingMode[document.addressing.upper()],
        has_fabric=document.fabric,
        mig=None if document.mig is None else build_mig_table(document.mig, mig_tables[document.mig]),
    )


def build_mig_table(name: str, document: MigTableDocument) -> MigTable:
    """The MIG table ``name``.

    Raises:
        MachineInvalid: two profiles share a number or an id, or one does not fit the GPU.
    """
    for field in ("number", "id"):
        values = [getattr(profile, field) for profile in document.profiles]
        if len(set(values)) != len(values):
            raise MachineInvalid(f"MIG table {name}: two profiles have the same {field}: {sorted(values)}")
    for profile in document.profiles:
        _check_profile(name, profile, document)
    return MigTable(
        memory_slices=document.memory_slices,
        compute_slices=document.compute_slices,
        profiles=tuple(_build_profile(profile) for profile in document.profiles),
    )


def _check_profile(name: str, profile: MigProfileDocument, table: MigTableDocument) -> None:
    place = f"MIG table {name}: profile {profile.id}"
    if max(profile.starts) + profile.size > table.memory_slices:
        raise MachineInvalid(f"{place}: starts and size go past the {table.memory_slices} memory slices")
    if len(set(profile.starts)) != len(profile.starts):
        raise MachineInvalid(f"{place}: starts: one is there twice")
    if profile.slices > table.compute_slices:
        raise MachineInvalid(f"{place}: slices: more than the GPU's {table.compute_slices}")


def _build_profile(document: MigProfileDocument) -> MigProfile:
    return MigProfile(
        number=document.number,
        info=GpuInstanceProfileInfo(
            id=document.id,
            slice_count=document.slices,
            instance_count=document.count,
            multiprocessor_count=document.sm,
            copy_engine_count=document.ce,
            decoder_count=document.dec,
            encoder_count=document.enc,
            jpeg_count=document.jpeg,
            ofa_count=document.ofa,
            memory_size_mib=document.memory_mib,
        ),
        placements=tuple(Placement(start=start, size=document.size) for start in document.starts),
    )
