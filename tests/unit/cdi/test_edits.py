"""What a container gets for its GPUs."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from driver.cdi.edits import GrantedGpu, build_claim_spec, build_common_edits, build_gpu_edits
from driver.cdi.spec import ContainerEdits, DeviceNodeEdit, Hook, Mount, encode_spec
from driver.host.device_nodes import DeviceNode
from driver.host.driver_files import DriverFiles, DriverLibrary
from driver.names import GpuUUID, PciAddress
from tests.fakes.claim_host import VERSION, driver_files
from tests.unit.cdi.cdi_schema import validate_cdi


def node(name: str, minor: int, *, host: str = "/dev") -> DeviceNode:
    return DeviceNode(path=f"/dev/{name}", host_path=f"{host}/{name}", type="c", major=195, minor=minor)


def granted(position: int, **changes: str) -> GrantedGpu:
    return GrantedGpu(
        name=changes.get("name", f"claim-gpu-{position}"),
        uuid=GpuUUID(f"GPU-{position}"),
        pci=PciAddress(0, 0x10 + position, 0),
        node=node(f"nvidia{position}", position, host=changes.get("host", "/dev")),
    )


CONTROL = (node("nvidiactl", 255), node("nvidia-uvm", 0))


def test_r25_each_gpu_has_a_node_and_a_variable_of_its_own() -> None:
    """R25: a container may get devices of several claims; one variable with a list would hold the last claim's alone."""
    assert build_gpu_edits(granted(3)) == ContainerEdits(
        env=("GPU_DRA_DEVICE_0000_13_00_0=GPU-3",),
        device_nodes=(DeviceNodeEdit(path="/dev/nvidia3", type="c", major=195, minor=3, permissions="rw"),),
    )


@pytest.mark.parametrize("part", ["", "_MIG_19_3"])
@pytest.mark.parametrize("pci", [PciAddress(0, 0x4E, 0), PciAddress(0xF, 1, 0), PciAddress(0xFFFFFFFF, 0xFF, 0x1F, 7)], ids=str)
def test_names_of_variables_are_names_to_a_shell_too(pci: PciAddress, part: str) -> None:
    """One with a dash or a dot never reaches the program: https://github.com/kubernetes-sigs/dra-driver-cpu/issues/197."""
    gpu = GrantedGpu(name="claim-gpu", uuid=GpuUUID("GPU-0"), pci=pci, node=node("nvidia0", 0), part=part, share_bytes=1)
    names = [text.partition("=")[0] for text in build_gpu_edits(gpu).env]
    assert len(names) == 2
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) for name in names)


def test_a_node_from_another_dev_root_keeps_its_name_in_the_container() -> None:
    (edit,) = build_gpu_edits(granted(0, host="/mock/dev")).device_nodes
    assert (edit.path, edit.host_path) == ("/dev/nvidia0", "/mock/dev/nvidia0")


def test_r43_without_a_hook_each_library_stands_under_its_soname_too() -> None:
    """R43: nothing else makes the loader find libcuda.so.1."""
    edits = build_common_edits(CONTROL, driver_files())
    options = ("ro", "nosuid", "nodev", "bind")
    library = f"/host/usr/lib64/libcuda.so.{VERSION}"
    assert edits.mounts == (
        Mount(host_path=library, container_path=f"/usr/lib64/libcuda.so.{VERSION}", options=options),
        Mount(host_path=library, container_path="/usr/lib64/libcuda.so.1", options=options),
        Mount(host_path=library, container_path="/usr/lib64/libcuda.so", options=options),
        Mount(host_path="/host/usr/bin/nvidia-smi", container_path="/usr/bin/nvidia-smi", options=options),
    )
    assert edits.hooks == ()
    assert edits.env == ("NVIDIA_VISIBLE_DEVICES=void",)
    assert [each.path for each in edits.device_nodes] == ["/dev/nvidiactl", "/dev/nvidia-uvm"]


def test_with_a_hook_links_and_the_loaders_cache_are_its_business() -> None:
    edits = build_common_edits(CONTROL, driver_files(has_hook=True))
    path = "/host/usr/bin/nvidia-cdi-hook"
    links = (f"libcuda.so.{VERSION}::/usr/lib64/libcuda.so.1", "libcuda.so.1::/usr/lib64/libcuda.so")
    assert edits.hooks == (
        Hook(
            hook_name="createContainer",
            path=path,
            args=("nvidia-cdi-hook", "create-symlinks", "--link", links[0], "--link", links[1]),
        ),
        Hook(hook_name="createContainer", path=path, args=("nvidia-cdi-hook", "update-ldcache", "--folder", "/usr/lib64")),
    )
    assert [mount.container_path for mount in edits.mounts] == [f"/usr/lib64/libcuda.so.{VERSION}", "/usr/bin/nvidia-smi"]


@pytest.mark.parametrize("folder", ["/usr/lib64", "/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib", "/usr/local/nvidia/lib64"])
def test_without_a_hook_an_image_of_another_distribution_finds_the_library_too(folder: str) -> None:
    """Ubuntu's loader does not look into /usr/lib64, where Red Hat's nodes have the driver, nor the other way round.

    https://github.com/NVIDIA/nvidia-container-toolkit/issues/71, https://github.com/NVIDIA/k8s-device-plugin/issues/5
    """
    library = DriverLibrary(
        host_path="/host/libcuda", container_path=f"{folder}/libcuda.so.{VERSION}", soname_path=f"{folder}/libcuda.so.1"
    )
    plain = DriverLibrary(host_path="/host/librt", container_path=f"{folder}/librt.so.{VERSION}", soname_path=None)
    loaders = ("/usr/lib64", "/usr/lib/x86_64-linux-gnu")
    files = DriverFiles(driver_version=VERSION, libraries=(library, plain), binaries=(), cdi_hook=None, loader_folders=loaders)
    seen = {each.container_path for each in build_common_edits((), files).mounts}
    here = {each for each in loaders if each.removeprefix("/usr") != folder.removeprefix("/usr")} | {folder}
    names = ("libcuda.so.1", "libcuda.so", f"librt.so.{VERSION}")
    assert seen == {f"{each}/{name}" for each in here for name in names} | {f"{folder}/libcuda.so.{VERSION}"}


def test_a_program_that_links_at_run_time_finds_libcuda_by_its_bare_name() -> None:
    """https://github.com/triton-lang/triton/pull/1981, https://github.com/NVIDIA/nvidia-container-toolkit/issues/944."""
    assert "/usr/lib64/libcuda.so" in {each.container_path for each in build_common_edits((), driver_files()).mounts}
    (links, _) = build_common_edits((), driver_files(has_hook=True)).hooks
    assert "libcuda.so.1::/usr/lib64/libcuda.so" in links.args


def test_a_claims_file_grants_each_gpu_apart_and_the_rest_once() -> None:
    spec = build_claim_spec([granted(0), granted(1)], CONTROL, driver_files(), {"a": "b"})
    assert [device.name for device in spec.devices] == ["claim-gpu-0", "claim-gpu-1"]
    assert spec.annotations == {"a": "b"}
    validate_cdi(json.loads(encode_spec(spec)))


def test_a_gpu_that_two_results_name_stands_there_once() -> None:
    """B66: two requests with admin access see the same GPUs; two devices of one name make the whole file invalid."""
    spec = build_claim_spec([granted(0), granted(0)], CONTROL, driver_files(), {})
    assert [device.name for device in spec.devices] == ["claim-gpu-0"]
    encode_spec(spec)


@pytest.mark.parametrize("has_hook", [True, False])
def test_a_root_without_libraries_needs_no_hook(has_hook: bool) -> None:
    files = DriverFiles(driver_version=VERSION, libraries=(), binaries=(), cdi_hook=driver_files(has_hook=has_hook).cdi_hook)
    edits = build_common_edits((), files)
    assert (edits.mounts, edits.hooks, edits.device_nodes) == ((), (), ())
    assert not edits.is_empty()
    assert msgspec.structs.replace(edits, env=()).is_empty()
