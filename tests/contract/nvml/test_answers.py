"""What a library says about a machine: the same from the mock and from the real backend over a stub of the same machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from driver.errors import NvmlError
from driver.nvml.calls import NVML_CALLS
from driver.nvml.enums import NvLinkDeviceType
from driver.nvml.library import NVLINK_MAX_LINKS, Code, Device, EventSet, NvmlLibrary, PciInfo, Placement
from driver.nvml.mock.devices import encode_bus_id
from driver.nvml.mock.faults import LinkDown
from driver.nvml.mock.model import MockGpu
from tests.contract.nvml.conftest import Backend

Open = Callable[[str], Backend]

MACHINES = ["dgx-h100", "dgx-1v", "gb200-tray", "gb10", "wide-pci-domain", "dgx-1v-asymmetric", "a100-pcie-half-bridged"]


def code_of(call: Callable[[], object]) -> str:
    """NVML's word for the refusal of ``call``."""
    with pytest.raises(NvmlError) as caught:
        call()
    assert caught.value.code == Code[caught.value.name]
    return caught.value.name


def value_or_code(call: Callable[[], object]) -> object:
    try:
        return call()
    except NvmlError as err:
        return err.name


@pytest.mark.parametrize("name", MACHINES)
def test_the_system_answers_as_the_machine_is_written(open_backend: Open, name: str) -> None:
    backend = open_backend(name)
    library, machine = backend.library, backend.machine
    assert library.system_driver_version() == machine.driver_version
    assert library.system_cuda_driver_version() == machine.cuda_driver_version
    assert library.device_count() == len(machine.gpus)


@pytest.mark.parametrize("name", MACHINES)
def test_each_gpu_answers_as_the_machine_is_written(open_backend: Open, name: str) -> None:
    backend = open_backend(name)
    library = backend.library
    for index, gpu in enumerate(backend.machine.gpus):
        device = library.device_handle_by_index(index)
        board = gpu.board
        assert library.device_uuid(device) == gpu.uuid
        assert library.device_minor_number(device) == gpu.minor
        assert library.device_name(device) == board.product
        assert library.device_brand(device) == board.brand
        assert library.device_architecture(device) == board.architecture
        assert library.device_cuda_compute_capability(device) == board.compute_capability
        assert library.device_pci_info(device) == PciInfo(bus_id=encode_bus_id(gpu.pci), device_id=board.device_id)
        assert library.device_virtualization_mode(device) == backend.machine.virtualization_mode
        optional = {
            library.device_memory_total_bytes: board.memory_bytes,
            library.device_memory_used_bytes: None if board.memory_bytes is None else 0,
            library.device_utilization_percent: None if gpu.mig_is_enabled else 0,
            library.device_temperature_celsius: 31,
            library.device_power_mw: 74_000,
            library.device_addressing_mode: board.addressing_mode,
            library.device_module_id: gpu.module_id,
            library.device_gpu_fabric_info: backend.machine.fabric if board.has_fabric else None,
        }
        for call, value in optional.items():
            assert value_or_code(partial(call, device)) == ("NOT_SUPPORTED" if value is None else value), call


@pytest.mark.parametrize("name", MACHINES)
def test_each_link_answers_for_its_own_direction(open_backend: Open, name: str) -> None:
    backend = open_backend(name)
    down = {(fault.gpu, fault.peer) for fault in backend.machine.faults if isinstance(fault, LinkDown)}
    for index, gpu in enumerate(backend.machine.gpus):
        device = backend.library.device_handle_by_index(index)
        for link in range(NVLINK_MAX_LINKS):
            check_link(backend, device, gpu, link, down={peer for one, peer in down if one == index})


def check_link(backend: Backend, device: Device, gpu: MockGpu, link: int, *, down: set[int | None]) -> None:
    library = backend.library
    state = value_or_code(lambda: library.device_nvlink_state(device, link))
    if link >= len(gpu.ports):
        assert state == ("INVALID_ARGUMENT" if gpu.ports else "NOT_SUPPORTED")
        return
    port = gpu.ports[link]
    assert state is (port is not None and port.peer not in down)
    kind = value_or_code(lambda: library.device_nvlink_remote_device_type(device, link))
    remote = value_or_code(lambda: library.device_nvlink_remote_pci_info(device, link))
    if port is None:
        assert (kind, remote) == ("NOT_SUPPORTED", "NOT_SUPPORTED")
    else:
        assert kind == (NvLinkDeviceType.SWITCH if port.peer is None else NvLinkDeviceType.GPU)
        assert isinstance(remote, PciInfo)
        assert remote.bus_id == encode_bus_id(port.remote_pci)


@pytest.mark.parametrize("name", MACHINES)
def test_levels_are_the_same_from_both_ends(open_backend: Open, name: str) -> None:
    backend = open_backend(name)
    devices = [backend.library.device_handle_by_index(index) for index in range(len(backend.machine.gpus))]
    for (first, second), level in backend.machine.levels.items():
        assert backend.library.device_topology_common_ancestor(devices[first], devices[second]) == level
        assert backend.library.device_topology_common_ancestor(devices[second], devices[first]) == level


def test_a_gpu_is_found_by_uuid(open_backend: Open) -> None:
    backend = open_backend("wide-pci-domain")
    for gpu in backend.machine.gpus:
        assert backend.library.device_uuid(backend.library.device_handle_by_uuid(gpu.uuid)) == gpu.uuid


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda uuid: "GPU-00000000-0000-0000-0000-000000000000", id="all zeros"),
        pytest.param(lambda uuid: uuid.upper(), id="upper case"),
        pytest.param(lambda uuid: uuid.removeprefix("GPU-"), id="no prefix"),
        pytest.param(lambda uuid: uuid + "\0", id="a NUL behind"),
        pytest.param(lambda uuid: uuid + " ", id="a space behind"),
        pytest.param(lambda uuid: "", id="empty"),
        pytest.param(lambda uuid: uuid.replace("GPU-", "MIG-"), id="as a MIG device"),
        pytest.param(lambda uuid: f"MIG-{uuid}/0/0", id="a MIG device that is not there"),
        pytest.param(lambda uuid: "GPU-\ud800", id="no text at all"),
    ],
)
def test_a_uuid_that_is_not_exactly_one_of_ours_is_not_found(open_backend: Open, change: Callable[[str], str]) -> None:
    """B35."""
    backend = open_backend("dgx-h100")
    uuid = change(backend.machine.gpus[0].uuid)
    assert code_of(lambda: backend.library.device_handle_by_uuid(uuid)) == "NOT_FOUND"


def test_an_index_past_the_last_gpu_is_an_invalid_argument(open_backend: Open) -> None:
    library = open_backend("dgx-h100").library
    assert code_of(lambda: library.device_handle_by_index(8)) == "INVALID_ARGUMENT"
    assert code_of(lambda: library.device_handle_by_index(-1)) == "INVALID_ARGUMENT"


def test_a_lost_gpu_says_so_and_its_neighbours_answer(open_backend: Open) -> None:
    library = open_backend("dgx-h100-gpu7-lost").library
    assert code_of(lambda: library.device_handle_by_index(7)) == "GPU_IS_LOST"
    assert library.device_minor_number(library.device_handle_by_index(6)) == 6


def test_handles_of_an_opening_that_is_over_are_refused(open_backend: Open) -> None:
    """A handle is a pointer: followed after a shutdown it would lead into freed memory."""
    library = open_backend("dgx-h100").library
    device = library.device_handle_by_index(0)
    library.shutdown()
    assert code_of(lambda: library.device_uuid(device)) == "UNINITIALIZED"
    library.init()
    assert code_of(lambda: library.device_uuid(device)) == "INVALID_ARGUMENT"
    assert code_of(lambda: library.device_nvlink_state(device, 0)) == "INVALID_ARGUMENT"


def test_init_is_counted(open_backend: Open) -> None:
    library = open_backend("dgx-h100").library
    library.init()
    library.shutdown()
    assert library.device_count() == 8


def test_a_closed_library_refuses_every_call_by_its_own_name(open_backend: Open) -> None:
    library = open_backend("dgx-h100").library
    library.shutdown()
    for method, call in NVML_CALLS.items():
        if method != "init":
            with pytest.raises(NvmlError) as caught:
                make_call(library, method)
            assert (caught.value.call, caught.value.name) == (call, "UNINITIALIZED")
    library.init()


NO_DEVICE = Device(object())
ARGUMENTS: dict[str, tuple[object, ...]] = {
    "device_handle_by_index": (0,),
    "device_handle_by_uuid": ("",),
    "device_set_compute_mode": (NO_DEVICE, 0),
    "device_nvlink_state": (NO_DEVICE, 0),
    "device_nvlink_remote_pci_info": (NO_DEVICE, 0),
    "device_nvlink_remote_device_type": (NO_DEVICE, 0),
    "device_topology_common_ancestor": (NO_DEVICE, NO_DEVICE),
    "device_gpu_instance_profile_info": (NO_DEVICE, 0),
    "device_gpu_instance_possible_placements": (NO_DEVICE, 0),
    "device_create_gpu_instance_with_placement": (NO_DEVICE, 0, Placement(start=0, size=8)),
    "device_gpu_instances": (NO_DEVICE, 0),
    "device_gpu_instance_by_id": (NO_DEVICE, 0),
    "gpu_instance_compute_instance_profile_info": (NO_DEVICE, 0),
    "gpu_instance_create_compute_instance": (NO_DEVICE, 0),
    "gpu_instance_compute_instances": (NO_DEVICE, 0),
    "device_register_events": (NO_DEVICE, 8, EventSet(object())),
    "event_set_wait": (EventSet(object()), 0),
}
WITHOUT_HANDLE = {"init", "shutdown", "system_driver_version", "system_cuda_driver_version", "device_count", "event_set_create"}


def make_call(library: NvmlLibrary, method: str) -> object:
    arguments = () if method in WITHOUT_HANDLE else ARGUMENTS.get(method, (NO_DEVICE,))
    keywords = {"enabled": True} if method == "device_set_mig_mode" else {}
    return getattr(library, method)(*arguments, **keywords)


def test_what_is_no_handle_is_an_invalid_argument_to_every_call(open_backend: Open) -> None:
    library = open_backend("dgx-h100").library
    for method, call in NVML_CALLS.items():
        if method not in WITHOUT_HANDLE and not method.startswith("device_handle_by_"):
            with pytest.raises(NvmlError) as caught:
                make_call(library, method)
            assert (caught.value.call, caught.value.name) == (call, "INVALID_ARGUMENT")
