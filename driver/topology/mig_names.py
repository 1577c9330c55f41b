"""Names of MIG devices, and NVIDIA's texts for their profiles.

``gpu-0000-4e-00-0-mig-1g-10gb-p19-3`` is the GPU, the profile's text, the profile's number and the start. GPU, number and start
are the identity; the text is decoration, since the driver renames profiles, and two profiles of one GPU may share a text (R2).
A compute instance that is not the whole of its GPU instance has its own profile and start behind that: ``…-p9-4-c0-1``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from driver.names import DeviceName, PciAddress
from driver.nvml.library import GpuInstanceProfileInfo, Placement
from driver.topology.names import gpu_device_name, parse_gpu_name

_MIG = re.compile(
    r"(gpu-[0-9a-f]+-[0-9a-f]{2}-[0-9a-f]{2}-[0-7])-mig-[a-z0-9-]+-p(\d{1,4})-(\d{1,3})(?:-c(\d{1,4})-(\d{1,3}))?",
    re.ASCII,
)
_EIGHTHS = 8
_MIB = 1 << 20
_GIB = 1 << 30

_KINDS = {
    7: "+me",
    8: "+me",
    10: "+gfx",
    11: "+gfx",
    12: "+gfx",
    13: "-me",
    14: "-me",
    15: "+me.all",
    16: "+me.all",
    17: "+gfx",
}
"""What NVML's enumeration says of a profile beyond its size: ``NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1`` is 7."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigIdentity:
    """Which part of which GPU a MIG device is, whatever it is called."""

    gpu: PciAddress
    profile_id: int
    start: int
    compute: tuple[int, int] | None = None
    """Profile and start of a compute instance that is not the whole GPU instance."""


def mig_device_name(identity: MigIdentity, text: str) -> DeviceName:
    """The name; ``parse_mig_name`` gives the identity back. ``text`` is the profile's, as ``build_profile_text`` makes it."""
    words = text.replace("-", "-no-").replace("+", "-").replace(".", "-")
    compute = "" if identity.compute is None else f"-c{identity.compute[0]}-{identity.compute[1]}"
    return DeviceName(f"{gpu_device_name(identity.gpu)}-mig-{words}-p{identity.profile_id}-{identity.start}{compute}")


def parse_mig_name(name: str) -> MigIdentity | None:
    """What a MIG device's name stands for; None for every other name."""
    match = _MIG.fullmatch(name)
    gpu = parse_gpu_name(match[1]) if match is not None else None
    if match is None or gpu is None:
        return None
    compute = None if match[4] is None else (int(match[4]), int(match[5]))
    return MigIdentity(gpu=gpu, profile_id=int(match[2]), start=int(match[3]), compute=compute)


def parse_gpu_of_device(name: str) -> PciAddress | None:
    """The GPU of a device of either kind; None for a name that is not ours."""
    identity = parse_mig_name(name)
    return identity.gpu if identity is not None else parse_gpu_name(name)


def build_profile_text(number: int, info: GpuInstanceProfileInfo, gpu_memory_bytes: int | None) -> str:
    """``1g.10gb``, ``1g.24gb+me``: the text by which NVIDIA's driver and tools call the profile.

    The memory is the instance's share of the GPU, in eighths and rounded up, of the GPU's whole gigabytes.
    """
    return f"{info.slice_count}g.{_share_gb(info.memory_size_mib, gpu_memory_bytes)}gb{_KINDS.get(number, '')}"


def build_compute_text(compute: Placement, profile_text: str) -> str:
    """``1c.3g.40gb``: a compute instance that is a part of its GPU instance."""
    return f"{compute.size}c.{profile_text}"


def _share_gb(memory_mib: int, gpu_memory_bytes: int | None) -> int:
    own = memory_mib * _MIB
    if gpu_memory_bytes is None or gpu_memory_bytes < own:
        return max(1, round(own / _GIB))
    eighths = -(-own * _EIGHTHS // gpu_memory_bytes)
    whole_gb = -(-gpu_memory_bytes // _GIB)
    return (2 * eighths * whole_gb + _EIGHTHS) // (2 * _EIGHTHS)
