"""A mock machine as the lines that the stub library reads."""

from __future__ import annotations

from collections.abc import Iterator

from driver.nvml.enums import Architecture, Brand, NvLinkDeviceType
from driver.nvml.library import Code
from driver.nvml.mock.condition import build_condition
from driver.nvml.mock.devices import encode_bus_id
from driver.nvml.mock.faults import CallFails, GpuLost, LinkDown, Load
from driver.nvml.mock.model import Machine, MigTable, MockGpu

SWITCH_DEVICE_ID = 0x22A310DE
_FORMS = {"nvmlDeviceGetTemperature": ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")}
"""Calls that drivers have in more than one form: a GPU that refuses refuses all."""


def escape(text: bytes) -> str:
    """Bytes that are no plain text, as ``%`` and two digits."""
    return "".join(chr(byte) if 0x20 <= byte < 0x7F and byte != 0x25 else f"%{byte:02x}" for byte in text)


def describe(machine: Machine) -> str:
    """The whole description."""
    return "\n".join(_describe_machine(machine)) + "\n"


def _describe_machine(machine: Machine) -> Iterator[str]:
    yield f"machine {machine.driver_version} {machine.cuda_driver_version}"
    for index, gpu in enumerate(machine.gpus):
        for line in _describe_gpu(machine, index, gpu):
            yield f"gpu {index} {line}"
    for (first, second), level in machine.levels.items():
        yield f"level {first} {second} {int(level)}"


def _describe_gpu(machine: Machine, index: int, gpu: MockGpu) -> Iterator[str]:
    board = gpu.board
    is_lost = any(isinstance(fault, GpuLost) and fault.gpu == index for fault in machine.faults)
    major, minor = board.compute_capability
    yield f"uuid {escape(gpu.uuid.encode())}"
    yield f"name {escape(board.product.encode())}"
    yield f"bus {encode_bus_id(gpu.pci)}"
    yield (
        f"facts {gpu.minor} {board.brand} {int(board.architecture)} {major} {minor} {board.device_id}"
        f" {board.memory_bytes or 0} {machine.virtualization_mode} {int(is_lost)}"
    )
    yield from _describe_condition(machine, index, gpu)
    if gpu.module_id is not None:
        yield f"module {gpu.module_id}"
    if board.addressing_mode is not None:
        yield f"addressing {board.addressing_mode}"
    yield f"ports {len(gpu.ports)}"
    yield from _describe_links(machine, index, gpu)
    if board.has_fabric and machine.fabric is not None:
        yield f"fabric {machine.fabric.clique_id} {machine.fabric.state} {machine.fabric.cluster_uuid.hex()}"
    if board.mig is not None:
        yield (
            f"mig {int(board.needs_reset_for_mig)} {int(gpu.mig_is_enabled)}"
            f" {board.mig.memory_slices} {board.mig.compute_slices}"
        )
        yield from _describe_profiles(board.mig)


def _describe_condition(machine: Machine, index: int, gpu: MockGpu) -> Iterator[str]:
    board, condition = gpu.board, build_condition(machine.faults, index)
    # Ordinary gaming cards and memory that is the host's have no ECC; rows are remapped since Ampere.
    has_ecc = board.memory_bytes is not None and board.brand not in {Brand.GEFORCE, Brand.GEFORCE_RTX}
    rows = condition.remapped_rows
    yield (
        f"condition {int(condition.recovery_action)} {condition.uncorrected_ecc_errors if has_ecc else -1}"
        f" {int(has_ecc and board.architecture >= Architecture.AMPERE)} {rows.correctable} {rows.uncorrectable}"
        f" {int(rows.is_pending)} {int(rows.has_failed)} {int(condition.clocks_reasons):x}"
    )
    loads = [fault for fault in machine.faults if isinstance(fault, Load) and fault.gpu == index]
    load = loads[-1] if loads else Load(gpu=index)
    used = (board.memory_bytes or 0) * load.memory_percent // 100
    yield f"figures {load.percent} {used} {load.celsius} {load.watts * 1000}"
    for fault in machine.faults:
        if isinstance(fault, CallFails) and fault.gpu in (None, index):
            for form in _FORMS.get(fault.call, (fault.call,)):
                yield f"refuses {form} {int(Code[fault.code])}"


def _describe_links(machine: Machine, index: int, gpu: MockGpu) -> Iterator[str]:
    down = [fault for fault in machine.faults if isinstance(fault, LinkDown) and fault.gpu == index]
    for number, port in enumerate(gpu.ports):
        if port is not None:
            is_down = any(fault.peer in (None, port.peer) and (fault.links is None or number in fault.links) for fault in down)
            kind = NvLinkDeviceType.SWITCH if port.peer is None else NvLinkDeviceType.GPU
            device_id = SWITCH_DEVICE_ID if port.peer is None else machine.gpus[port.peer].board.device_id
            yield f"link {number} {int(not is_down)} {int(kind)} {device_id} {encode_bus_id(port.remote_pci)}"


def _describe_profiles(table: MigTable) -> Iterator[str]:
    for profile in table.profiles:
        info = profile.info
        numbers = (
            profile.number,
            info.id,
            info.slice_count,
            info.instance_count,
            info.multiprocessor_count,
            info.copy_engine_count,
            info.decoder_count,
            info.encoder_count,
            info.jpeg_count,
            info.ofa_count,
            info.memory_size_mib,
        )
        places = " ".join(f"{placement.start}:{placement.size}" for placement in profile.placements)
        yield f"profile {' '.join(str(number) for number in numbers)} {places}"
