"""What a container gets for its GPUs: from facts about the host to CDI edits. Pure."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from driver.cdi.names import CLAIM_KIND
from driver.cdi.spec import CdiDevice, CdiSpec, ContainerEdits, DeviceNodeEdit, Hook, Mount
from driver.host.device_nodes import DeviceNode
from driver.host.driver_files import DriverFiles, DriverLibrary
from driver.names import PciAddress

ENV_PREFIX = "GPU_DRA_DEVICE_"
SHARE_PREFIX = "GPU_DRA_SHARE_BYTES_"
"""How much of a GPU's memory the container may use; programs that share without MPS keep to it by themselves."""
_READ_ONLY = ("ro", "nosuid", "nodev", "bind")
_PERMISSIONS = "rw"


_BARE_NAMES = {"libcuda.so.1": "libcuda.so"}
"""Names without a version that programs ask for at run time, although they are the linker's: Triton links with -lcuda."""

MPS_PIPE_FOLDER = "/tmp/nvidia-mps"  # noqa: S108  where MPS looks by itself, and NVIDIA's driver puts it
_SHARED_MEMORY_FOLDER = "/dev/shm"  # noqa: S108  MPS looks nowhere else
_READ_WRITE = ("rw", "nosuid", "nodev", "bind")


@dataclass(frozen=True, slots=True, kw_only=True)
class MpsAccess:
    """Folders of an MPS daemon, as the container runtime sees them."""

    pipe_folder: str
    shared_memory_folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedGpu:
    """One GPU, or a MIG device of it, that a claim's containers get."""

    name: str
    """The CDI device's name in its kind."""
    uuid: str
    pci: PciAddress
    node: DeviceNode
    part: str = ""
    """Tells the variables of several MIG devices of one GPU apart: ``_MIG_19_3``; empty for the whole GPU."""
    capabilities: tuple[DeviceNode, ...] = ()
    """Of a MIG device: without them the GPU's own node is of no use."""
    mps: MpsAccess | None = None
    share_bytes: int | None = None
    """Memory of a share; None where the GPU is had whole."""


def build_claim_spec(
    gpus: Sequence[GrantedGpu], control: Sequence[DeviceNode], files: DriverFiles, annotations: Mapping[str, str]
) -> CdiSpec:
    """The file of one claim. A GPU that two results name (admin access can) stands there once."""
    by_name = {gpu.name: gpu for gpu in gpus}
    return CdiSpec(
        kind=CLAIM_KIND,
        annotations=dict(annotations),
        devices=tuple(CdiDevice(name=gpu.name, container_edits=build_gpu_edits(gpu)) for gpu in by_name.values()),
        container_edits=build_common_edits(control, files),
    )


def build_gpu_edits(gpu: GrantedGpu) -> ContainerEdits:
    """One GPU's nodes and variable.

    The variable is of this device alone: a container may get devices of several claims, and one list in one variable would
    be overwritten by the next (R25).
    """
    address = str(gpu.pci).replace(":", "_").replace(".", "_")
    env = [f"{ENV_PREFIX}{address}{gpu.part}={gpu.uuid}"]
    if gpu.share_bytes is not None:
        env.append(f"{SHARE_PREFIX}{address}={gpu.share_bytes}")
    mounts: tuple[Mount, ...] = ()
    if gpu.mps is not None:
        env.append(f"CUDA_MPS_PIPE_DIRECTORY={MPS_PIPE_FOLDER}")
        pairs = ((gpu.mps.pipe_folder, MPS_PIPE_FOLDER), (gpu.mps.shared_memory_folder, _SHARED_MEMORY_FOLDER))
        mounts = tuple(Mount(host_path=host, container_path=inside, options=_READ_WRITE) for host, inside in pairs)
    nodes = tuple(_node_edit(node) for node in (gpu.node, *gpu.capabilities))
    return ContainerEdits(env=tuple(env), device_nodes=nodes, mounts=mounts)


def build_common_edits(control: Sequence[DeviceNode], files: DriverFiles) -> ContainerEdits:
    """Control nodes, driver files and hooks, once for all devices of the claim.

    ``NVIDIA_VISIBLE_DEVICES=void`` keeps an older runtime hook from adding devices of its own.
    """
    return ContainerEdits(
        env=("NVIDIA_VISIBLE_DEVICES=void",),
        device_nodes=tuple(_node_edit(node) for node in control),
        mounts=_build_mounts(files),
        hooks=_build_hooks(files),
    )


@functools.lru_cache(maxsize=1)  # every claim of a node has the same ones, and they were a sixth of a prepare's CPU
def _build_mounts(files: DriverFiles) -> tuple[Mount, ...]:
    return tuple(_list_mounts(files))


def _list_mounts(files: DriverFiles) -> Iterable[Mount]:
    for library in files.libraries:
        yield _mount(library.host_path, library.container_path)
        if files.cdi_hook is None:
            for path in _list_loader_paths(library, files.loader_folders):
                yield _mount(library.host_path, path)
    for binary in files.binaries:
        yield _mount(binary.host_path, binary.container_path)


def _list_loader_paths(library: DriverLibrary, loader_folders: Sequence[str]) -> Iterable[str]:
    """Where a library must stand besides, so that a loader finds it without ldconfig's cache, whatever image it is in (R43)."""
    path = PurePosixPath(library.soname_path or library.container_path)
    own = str(path.parent)
    others = (each for each in loader_folders if each.removeprefix("/usr") != own.removeprefix("/usr"))
    names = (path.name, *filter(None, [_BARE_NAMES.get(path.name)]))
    paths = (f"{folder}/{name}" for folder in (own, *others) for name in names)
    return (each for each in paths if each != library.container_path)


@functools.lru_cache(maxsize=1)
def _build_hooks(files: DriverFiles) -> tuple[Hook, ...]:
    """The links and the loader's cache, which bind mounts alone do not bring (R43)."""
    if files.cdi_hook is None:
        return ()
    links = [(PurePosixPath(each.container_path).name, each.soname_path) for each in files.libraries if each.soname_path]
    links += [
        (path.name, str(path.with_name(_BARE_NAMES[path.name])))
        for path in (PurePosixPath(each.soname_path or each.container_path) for each in files.libraries)
        if path.name in _BARE_NAMES
    ]
    folders = sorted({str(PurePosixPath(library.container_path).parent) for library in files.libraries})
    hooks = []
    if links:
        pairs = [f"{target}::{link}" for target, link in links]
        hooks.append(_hook(files.cdi_hook.host_path, "create-symlinks", "--link", pairs))
    if folders:
        hooks.append(_hook(files.cdi_hook.host_path, "update-ldcache", "--folder", folders))
    return tuple(hooks)


def _hook(path: str, command: str, flag: str, values: Iterable[str]) -> Hook:
    args = [PurePosixPath(path).name, command]
    for value in values:
        args += [flag, value]
    return Hook(hook_name="createContainer", path=path, args=tuple(args))


def _mount(host_path: str, container_path: str) -> Mount:
    return Mount(host_path=host_path, container_path=container_path, options=_READ_ONLY)


def _node_edit(node: DeviceNode) -> DeviceNodeEdit:
    return DeviceNodeEdit(
        path=node.path,
        host_path=node.host_path if node.host_path != node.path else None,
        type=node.type,
        major=node.major,
        minor=node.minor,
        permissions=_PERMISSIONS,
    )
