"""The stand-in root: the folders of ``Roots`` as a node with this machine would have them, so that nothing above needs to know.

Device nodes are links to ``/dev/null``, libraries are tiny text files under their real names. Everything is a function of the
machine, but for the boot id, and is brought in step again each time: what is right already is not touched. A machine of another
kind in the same directory replaces the old one's files.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from driver.host.roots import Roots
from driver.names import PciAddress
from driver.nvml.mock.files import write_file, write_link
from driver.nvml.mock.model import Machine, MockGpu
from driver.nvml.mock.mps_control import MPS_CONTROL
from driver.nvml.mock.nvidia_smi import build_nvidia_smi

_CONTROL_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
_LIBRARY_FOLDER = "usr/lib/x86_64-linux-gnu"
_LIBRARIES = (
    ("libcuda", ("libcuda.so.1", "libcuda.so")),
    ("libcudadebugger", ("libcudadebugger.so.1",)),
    ("libnvidia-ml", ("libnvidia-ml.so.1", "libnvidia-ml.so")),
    ("libnvidia-ptxjitcompiler", ("libnvidia-ptxjitcompiler.so.1",)),
    ("libnvidia-nvvm", ("libnvidia-nvvm.so.4",)),
    ("libnvidia-opencl", ("libnvidia-opencl.so.1",)),
    ("libnvidia-gpucomp", ()),
    ("libnvidia-allocator", ("libnvidia-allocator.so.1",)),
    ("libnvidia-cfg", ("libnvidia-cfg.so.1",)),
)
_NVIDIA_MAJOR = 195
_PROC_DEVICES = f"""Character devices:
  1 mem
  5 /dev/tty
{_NVIDIA_MAJOR} nvidia
{_NVIDIA_MAJOR} nvidia-modeset
{_NVIDIA_MAJOR} nvidiactl
234 nvidia-caps
508 nvidia-uvm

Block devices:
259 blkext
"""


def build_roots(root: Path) -> Roots:
    """The roots that lie below a stand-in root."""
    driver, dev = root / "driver", root / "dev"
    return Roots(dev=dev, dev_on_host=dev, sys=root / "sys", proc=root / "proc", driver=driver, driver_on_host=driver)


def read_boot_id(root: Path) -> str:
    """The stand-in's boot id."""
    return _boot_id_path(root).read_text(encoding="ascii").strip()


def write_boot_id(root: Path) -> None:
    """Boots: gives the stand-in a new boot id."""
    write_file(_boot_id_path(root), f"{uuid.uuid4()}\n".encode())


def write_module(root: Path, driver_version: str) -> None:
    """Loads the kernel module: its folder is made anew, with an inode and a time of its own."""
    shutil.rmtree(root / "sys/module/nvidia", ignore_errors=True)
    write_file(root / "sys/module/nvidia/version", f"{driver_version}\n".encode())
    write_file(root / "sys/module/nvidia/initstate", b"live\n")


def write_standin(root: Path, machine: Machine) -> None:
    """Brings the files below ``root`` in step with ``machine``."""
    mark = root / ".machine"
    wanted = repr(
        (machine.name, machine.seed, machine.driver_version, [(gpu.pci, gpu.uuid, gpu.minor) for gpu in machine.gpus])
    )
    if not mark.exists() or mark.read_text(encoding="utf-8") != wanted:
        for folder in ("dev", "sys", "driver", "proc/driver"):
            shutil.rmtree(root / folder, ignore_errors=True)
    if not _boot_id_path(root).exists():
        write_boot_id(root)
    if not (root / "sys/module/nvidia").exists():
        write_module(root, machine.driver_version)
    write_file(root / "proc/devices", _PROC_DEVICES.encode())
    _write_dev(root / "dev", machine)
    _write_pci(root / "sys", machine)
    _write_proc(root / "proc/driver/nvidia", machine)
    _write_driver(root / "driver", machine)
    write_file(mark, wanted.encode())


def _boot_id_path(root: Path) -> Path:
    return root / "proc/sys/kernel/random/boot_id"


def _write_dev(dev: Path, machine: Machine) -> None:
    for name in (*_CONTROL_NODES, *(f"nvidia{gpu.minor}" for gpu in machine.gpus)):
        write_link(dev / name, "/dev/null")


def _write_pci(sys: Path, machine: Machine) -> None:
    for gpu in machine.gpus:
        folder = Path("devices", *_build_pci_path(gpu), str(gpu.pci))
        write_file(sys / folder / "numa_node", f"{gpu.numa_node}\n".encode())
        write_file(sys / folder / "vendor", b"0x10de\n")
        write_file(sys / folder / "device", f"{gpu.board.device_id >> 16:#06x}\n".encode())
        write_link(sys / "bus/pci/devices" / str(gpu.pci), f"../../../{folder}")


def _build_pci_path(gpu: MockGpu) -> Iterator[str]:
    """The folders above the GPU's: its root and a port of it, or a bus that says nothing where the machine hides the root."""
    if gpu.pcie_root is None:
        yield "virtual-pci"
        return
    domain, bus = gpu.pcie_root.removeprefix("pci").split(":")
    yield gpu.pcie_root
    if int(bus, 16) != gpu.pci.bus:
        yield str(PciAddress(int(domain, 16), int(bus, 16), 1))


def _write_proc(proc: Path, machine: Machine) -> None:
    version = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {machine.driver_version}  (mock)\n"
    write_file(proc / "version", version.encode())
    for gpu in machine.gpus:
        facts = {"Model": gpu.board.product, "GPU UUID": gpu.uuid, "Bus Location": gpu.pci, "Device Minor": gpu.minor}
        text = "".join(f"{name}: \t {value}\n" for name, value in facts.items())
        write_file(proc / "gpus" / str(gpu.pci) / "information", text.encode())


def _write_driver(driver: Path, machine: Machine) -> None:
    folder = driver / _LIBRARY_FOLDER
    for name, links in _LIBRARIES:
        file = f"{name}.so.{machine.driver_version}"
        write_file(folder / file, f"stand-in for {file} on a machine without NVIDIA GPUs\n".encode())
        for link in links:
            write_link(folder / link, file)
    write_file(driver / "usr/bin/nvidia-smi", build_nvidia_smi(machine).encode(), mode=0o755)
    write_file(driver / "usr/bin/nvidia-cuda-mps-control", MPS_CONTROL.encode(), mode=0o755)
