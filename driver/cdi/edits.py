"""What a container gets for its GPUs: from facts about the host to CDI edits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from driver.cdi.names import CLAIM_KIND
from driver.cdi.spec import CdiDevice, CdiSpec, ContainerEdits, DeviceNodeEdit, Hook, Mount
from driver.host.device_nodes import DeviceNode
from driver.host.driver_files import DriverFiles
from driver.names import GpuUUID, PciAddress

ENV_PREFIX = "GPU_DRA_DEVICE_"
_READ_ONLY = ("ro", "nosuid", "nodev", "bind")
_PERMISSIONS = "rw"


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedGpu:
    """One whole GPU that a claim's containers get."""

    name: str
    """The CDI device's name in its kind."""
    uuid: GpuUUID
    pci: PciAddress
    node: DeviceNode


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
    """One GPU's node and variable.

    The variable is of this device alone: a container may get devices of several claims, and one list in one variable would
    be overwritten by the next (R25).
    """
    address = str(gpu.pci).replace(":", "_").replace(".", "_")
    return ContainerEdits(env=(f"{ENV_PREFIX}{address}={gpu.uuid}",), device_nodes=(_node_edit(gpu.node),))


def build_common_edits(control: Sequence[DeviceNode], files: DriverFiles) -> ContainerEdits:
    """Control nodes, driver files and hooks, once for all devices of the claim.

    ``NVIDIA_VISIBLE_DEVICES=void`` keeps an older runtime hook from adding devices of its own.
    """
    return ContainerEdits(
        env=("NVIDIA_VISIBLE_DEVICES=void",),
        device_nodes=tuple(_node_edit(node) for node in control),
        mounts=tuple(_build_mounts(files)),
        hooks=_build_hooks(files),
    )


def _build_mounts(files: DriverFiles) -> Iterable[Mount]:
    for library in files.libraries:
        yield _mount(library.host_path, library.container_path)
        if files.cdi_hook is None and library.soname_path is not None:
            yield _mount(library.host_path, library.soname_path)
    for binary in files.binaries:
        yield _mount(binary.host_path, binary.container_path)


def _build_hooks(files: DriverFiles) -> tuple[Hook, ...]:
    """The links and the loader's cache, which bind mounts alone do not bring (R43)."""
    if files.cdi_hook is None:
        return ()
    links = [library for library in files.libraries if library.soname_path is not None]
    folders = sorted({str(PurePosixPath(library.container_path).parent) for library in files.libraries})
    hooks = []
    if links:
        pairs = [f"{PurePosixPath(library.container_path).name}::{library.soname_path}" for library in links]
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
