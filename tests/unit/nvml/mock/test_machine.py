"""``open_mock``: state that stays, a boot that takes it, and the stand-in root."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import yaml

from driver.errors import MachineInvalid, NvmlError
from driver.nvml.library import Device, NvmlLibrary, Placement
from driver.nvml.mock import MockMachine, open_mock, read_machine_names, reboot, reload_driver
from driver.nvml.mock.faults import GpuLost
from driver.nvml.mock.machine import write_faults


def open_node(state_dir: Path, spec: str = "dgx-h100") -> tuple[MockMachine, NvmlLibrary, Device]:
    mock = open_mock(spec, state_dir)
    mock.library.init()
    return mock, mock.library, mock.library.device_handle_by_index(0)


def make_mig_device(library: NvmlLibrary, device: Device, start: int = 2) -> str:
    """A 2g instance with its compute instance; its UUID."""
    library.device_set_mig_mode(device, enabled=True)
    instance = library.device_create_gpu_instance_with_placement(device, 14, Placement(start=start, size=2))
    compute = library.gpu_instance_create_compute_instance(instance, 1)
    return library.device_uuid(library.compute_instance_info(compute).device)


def files_below(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of everything: what was written again differs."""
    entries = {str(path.relative_to(folder)): path.lstat() for path in sorted(folder.rglob("*"))}
    return {name: (entry.st_ino, entry.st_mtime_ns) for name, entry in entries.items()}


def capabilities_of(mock: MockMachine) -> dict[str, str]:
    folder = mock.roots.proc / "driver/nvidia/capabilities"
    return {
        str(path.relative_to(folder)): path.read_text().splitlines()[0] for path in sorted(folder.rglob("*")) if path.is_file()
    }


def nodes_of(mock: MockMachine) -> list[str]:
    return sorted(path.name for path in (mock.roots.dev / "nvidia-caps").iterdir())


def test_mig_devices_outlive_the_process(tmp_path: Path) -> None:
    _, library, device = open_node(tmp_path)
    uuid = make_mig_device(library, device)
    _, again, gpu = open_node(tmp_path)
    assert again.device_uuid(again.device_handle_by_uuid(uuid)) == uuid
    assert again.device_mig_mode(gpu).is_enabled


def test_two_that_have_it_open_see_each_others_changes(tmp_path: Path) -> None:
    _, first, device = open_node(tmp_path)
    _, second, gpu = open_node(tmp_path)
    make_mig_device(first, device)
    with pytest.raises(NvmlError, match="INSUFFICIENT_RESOURCES"):
        second.device_create_gpu_instance_with_placement(gpu, 9, Placement(start=0, size=4))
    assert len(second.device_gpu_instances(gpu, 14)) == 1


def test_a_boot_takes_the_instances(tmp_path: Path) -> None:
    """B46."""
    mock, library, device = open_node(tmp_path)
    before = (mock.roots.proc / "sys/kernel/random/boot_id").read_text()
    make_mig_device(library, device)
    reboot(tmp_path)
    again, library, device = open_node(tmp_path)
    assert (mock.roots.proc / "sys/kernel/random/boot_id").read_text() != before
    assert library.device_gpu_instances(device, 14) == ()
    assert not library.device_mig_mode(device).is_enabled
    assert list(capabilities_of(again)) == ["mig/config", "mig/monitor"]
    assert nodes_of(again) == ["nvidia-cap1", "nvidia-cap2"]


def test_a_boot_is_noticed_by_who_has_it_open(tmp_path: Path) -> None:
    _, library, device = open_node(tmp_path)
    make_mig_device(library, device)
    reboot(tmp_path)
    assert library.device_gpu_instances(device, 14) == ()


def test_a_boot_makes_amperes_pending_mode_current(tmp_path: Path) -> None:
    _, library, device = open_node(tmp_path, "dgx-a100")
    library.device_set_mig_mode(device, enabled=True)
    assert not library.device_mig_mode(device).is_enabled
    reboot(tmp_path)
    assert library.device_mig_mode(device).is_enabled
    reboot(tmp_path)
    assert library.device_mig_mode(device).is_enabled


def test_a_driver_reload_is_another_module_under_the_same_boot_id(tmp_path: Path) -> None:
    mock, _, _ = open_node(tmp_path)
    module, boot_id = mock.roots.sys / "module/nvidia", mock.roots.proc / "sys/kernel/random/boot_id"
    before = (module.stat().st_mtime_ns, boot_id.read_text())
    reload_driver(tmp_path)
    assert (module / "version").read_text() == "550.163.01\n"
    assert module.stat().st_mtime_ns != before[0]
    assert boot_id.read_text() == before[1]


def test_a_state_that_is_no_state_is_said(tmp_path: Path) -> None:
    open_node(tmp_path)
    (tmp_path / "mig.json").write_text("{}")
    with pytest.raises(MachineInvalid, match=r"mig\.json: no MIG state .* remove the file"):
        open_mock("dgx-h100", tmp_path)


def test_what_an_administrator_made_is_there_at_the_first_boot(tmp_path: Path) -> None:
    """B38."""
    text = {
        "name": "made", "driver": "550.1", "cuda": "12.4",
        "gpus": [
            {
                "board": "a100-sxm4-40gb", "pci": ["01:00.0"],
                "mig": {"enabled": True, "instances": [{"profile": 19, "start": start} for start in range(7)]},
            },
            {"board": "a100-sxm4-40gb", "pci": ["02:00.0"], "mig": {"enabled": True}},
            {
                "board": "a100-sxm4-40gb", "pci": ["03:00.0"],
                "mig": {"enabled": True, "instances": [{"profile": 9, "start": 4}]},
            },
        ],
    }  # fmt: skip
    path = tmp_path / "made.yaml"
    path.write_text(yaml.safe_dump(text))
    _, library, _ = open_node(tmp_path / "state", str(path))
    devices = [library.device_handle_by_index(index) for index in range(3)]
    assert [len(library.device_gpu_instances(device, 19)) for device in devices] == [7, 0, 0]
    assert [len(library.device_gpu_instances(device, 9)) for device in devices] == [0, 0, 1]
    assert all(len(library.gpu_instance_compute_instances(one, 0)) == 1 for one in library.device_gpu_instances(devices[0], 19))


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"profile": 5, "start": 0}, "INSUFFICIENT_RESOURCES: those before it leave no room there"),
        ({"profile": 9, "start": 1}, "INVALID_ARGUMENT: the profile has no such place"),
        ({"profile": 77, "start": 4}, "NOT_SUPPORTED: the GPU has no such profile"),
    ],
)
def test_instances_of_the_file_that_do_not_fit_are_said(tmp_path: Path, second: dict[str, int], says: str) -> None:
    instances = [{"profile": 9, "start": 0}, second]
    gpus = [
        {"board": "a30", "pci": ["00:00.0"]},
        {"board": "h200-nvl-141gb", "pci": ["01:00.0"], "mig": {"enabled": True, "instances": instances}},
    ]
    path = tmp_path / "made.yaml"
    path.write_text(yaml.safe_dump({"name": "made", "driver": "550.1", "cuda": "12.4", "gpus": gpus}))
    place = rf"mock machine made: GPU 1: mig\.instances\[1\] \(profile {second['profile']}, start {second['start']}\): "
    with pytest.raises(MachineInvalid, match=place + says):
        open_mock(str(path), tmp_path / "state")


def test_an_instance_has_its_capability_files_while_it_is_there(tmp_path: Path) -> None:
    """B40: the numbers that a container's device nodes are made from."""
    mock, library, _ = open_node(tmp_path)
    device = library.device_handle_by_index(1)
    make_mig_device(library, device)
    assert capabilities_of(mock) == {
        "gpu1/mig/gi3/access": "DeviceFileMinor: 165",
        "gpu1/mig/gi3/ci0/access": "DeviceFileMinor: 166",
        "mig/config": "DeviceFileMinor: 1",
        "mig/monitor": "DeviceFileMinor: 2",
    }
    assert nodes_of(mock) == ["nvidia-cap1", "nvidia-cap165", "nvidia-cap166", "nvidia-cap2"]
    instance = library.device_gpu_instances(device, 14)[0]
    library.compute_instance_destroy(library.gpu_instance_compute_instances(instance, 1)[0])
    assert "gpu1/mig/gi3/ci0/access" not in capabilities_of(mock)
    library.gpu_instance_destroy(instance)
    assert list(capabilities_of(mock)) == ["mig/config", "mig/monitor"]
    assert nodes_of(mock) == ["nvidia-cap1", "nvidia-cap2"]


def test_gpu_0s_numbers_are_the_real_drivers(tmp_path: Path) -> None:
    """B40: gpu0/gi3 has 30, its ci0 31."""
    mock, library, device = open_node(tmp_path)
    make_mig_device(library, device)
    assert nodes_of(mock) == ["nvidia-cap1", "nvidia-cap2", "nvidia-cap30", "nvidia-cap31"]


def test_the_root_holds_what_a_node_has(tmp_path: Path) -> None:
    mock, _, _ = open_node(tmp_path)
    assert sorted(path.name for path in mock.roots.dev.iterdir()) == [
        "nvidia-caps", "nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools",
        *(f"nvidia{number}" for number in range(8)),
        "nvidiactl",
    ]  # fmt: skip
    assert stat.S_ISCHR((mock.roots.dev / "nvidia0").stat().st_mode)
    assert "195 nvidia\n" in (mock.roots.proc / "devices").read_text()
    assert (mock.roots.sys / "module/nvidia/version").read_text() == "550.163.01\n"
    assert len((mock.roots.proc / "sys/kernel/random/boot_id").read_text()) == 37
    library = mock.roots.driver / "usr/lib/x86_64-linux-gnu/libcuda.so.1"
    assert library.resolve().name == "libcuda.so.550.163.01"
    assert os.access(mock.roots.driver / "usr/bin/nvidia-smi", os.X_OK)


def test_a_gpus_folder_in_sysfs_lies_below_its_root(tmp_path: Path) -> None:
    mock, _, _ = open_node(tmp_path)
    folder = mock.roots.sys / "bus/pci/devices/0000:9d:00.0"
    assert not Path(os.readlink(folder)).is_absolute()  # noqa: PTH115
    assert "pci0000:97" in folder.resolve().parts
    assert (folder / "numa_node").read_text() == "1\n"
    assert (folder / "vendor").read_text() == "0x10de\n"


def test_a_root_that_the_machine_hides_is_in_no_path(tmp_path: Path) -> None:
    mock, _, _ = open_node(tmp_path, "wide-pci-domain")
    hidden = (mock.roots.sys / "bus/pci/devices/a1b2c3d4:00:00.0").resolve()
    assert not any(part.startswith("pci") for part in hidden.relative_to(mock.roots.sys.resolve()).parts)
    shown = (mock.roots.sys / "bus/pci/devices/10000:01:00.0").resolve()
    assert "pci10000:00" in shown.parts


def test_a_machine_without_mig_has_no_capabilities(tmp_path: Path) -> None:
    mock, _, _ = open_node(tmp_path, "dgx-1v")
    assert not (mock.roots.dev / "nvidia-caps").exists()


@pytest.mark.parametrize("name", ["dgx-h100", "gb200-tray", "dgx-2"])
def test_opening_again_writes_nothing(tmp_path: Path, name: str) -> None:
    open_mock(name, tmp_path)
    before = files_below(tmp_path / "root")
    open_mock(name, tmp_path)
    assert files_below(tmp_path / "root") == before


def test_a_file_that_was_removed_comes_back(tmp_path: Path) -> None:
    mock, _, _ = open_node(tmp_path)
    (mock.roots.dev / "nvidia3").unlink()
    (mock.roots.driver / "usr/bin/nvidia-smi").unlink()
    open_mock("dgx-h100", tmp_path)
    assert (mock.roots.dev / "nvidia3").exists()
    assert (mock.roots.driver / "usr/bin/nvidia-smi").exists()


def test_another_machine_in_the_same_place_leaves_nothing_of_the_first(tmp_path: Path) -> None:
    """A swapped card: its MIG instances are not the new one's, the boot id is the node's."""
    mock, library, device = open_node(tmp_path)
    make_mig_device(library, device)
    boot_id = (mock.roots.proc / "sys/kernel/random/boot_id").read_text()
    again, library, device = open_node(tmp_path, "hgx-h100-4")
    assert sorted(path.name for path in (again.roots.sys / "bus/pci/devices").iterdir())[0] == "0000:06:00.0"
    assert not (again.roots.dev / "nvidia4").exists()
    assert library.device_gpu_instances(device, 14) == ()
    assert (mock.roots.proc / "sys/kernel/random/boot_id").read_text() == boot_id


def test_an_upgraded_driver_is_another_machines_worth_of_files(tmp_path: Path) -> None:
    text = {"name": "mine", "driver": "550.1", "cuda": "12.4", "gpus": [{"board": "t4", "pci": ["01:00.0"]}]}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(text))
    mock = open_mock(str(path), tmp_path / "state")
    path.write_text(yaml.safe_dump({**text, "driver": "580.2"}))
    open_mock(str(path), tmp_path / "state")
    assert (mock.roots.sys / "module/nvidia/version").read_text() == "580.2\n"
    libraries = (mock.roots.driver / "usr/lib/x86_64-linux-gnu").iterdir()
    assert not any("550" in library.name for library in libraries)


def test_two_nodes_of_one_machine_differ_by_seed(tmp_path: Path) -> None:
    _, first, one = open_node(tmp_path / "a", "dgx-h100@node-a")
    _, second, other = open_node(tmp_path / "b", "dgx-h100@node-b")
    assert first.device_uuid(one) != second.device_uuid(other)


def test_a_healed_machine_has_no_faults(tmp_path: Path) -> None:
    _, library, device = open_node(tmp_path)
    write_faults(tmp_path, [GpuLost(gpu=0)])
    with pytest.raises(NvmlError, match="GPU_IS_LOST"):
        library.device_uuid(device)
    write_faults(tmp_path, [])
    assert library.device_uuid(device)


def test_every_named_machine_opens(tmp_path: Path) -> None:
    for name in read_machine_names():
        mock = open_mock(name, tmp_path / name)
        devices = sorted(path.name for path in (mock.roots.sys / "bus/pci/devices").iterdir())
        assert devices == sorted(str(gpu.pci) for gpu in mock.machine.gpus)
