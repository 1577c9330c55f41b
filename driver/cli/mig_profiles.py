"""What MIG could make of each GPU, as far as NVML tells without a change of mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from driver.cli.node_view import MigProfile, MigTable
from driver.errors import NvmlError
from driver.nvml.library import GPU_INSTANCE_PROFILE_COUNT, Device, NvmlLibrary


def read_mig_tables(library: NvmlLibrary, uuids: Iterable[str]) -> tuple[MigTable, ...]:
    """A table for each of these GPUs. It is empty where the GPU has no MIG, or where the driver tells only with the mode on."""
    return tuple(_read_table(library, uuid) for uuid in uuids)


def _read_table(library: NvmlLibrary, uuid: str) -> MigTable:
    try:
        return tuple(_read_profiles(library, library.device_handle_by_uuid(uuid)))
    except NvmlError:
        return ()


def _read_profiles(library: NvmlLibrary, device: Device) -> Iterator[MigProfile]:
    for number in range(GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = library.device_gpu_instance_profile_info(device, number)
            yield MigProfile(
                number=number, info=info, placements=library.device_gpu_instance_possible_placements(device, info.id)
            )
        except NvmlError:
            # Most numbers are profiles of other boards.
            continue
