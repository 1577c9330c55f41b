"""The driver's files are found below any kind of driver root, and nothing outside of it ever is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from driver.errors import DeviceNotReady
from driver.host.driver_files import DriverFile, DriverFiles, DriverLibrary, find_driver_files
from driver.host.roots import Roots
from tests.unit.host.elves import make_elf

VERSION = "580.159.04"
HOST = "/run/nvidia/driver"
CUDA = f"libcuda.so.{VERSION}"


@dataclass(frozen=True, slots=True)
class Root:
    """A driver root that a test fills."""

    path: Path

    @property
    def roots(self) -> Roots:
        return Roots(driver=self.path, driver_on_host=Path(HOST))

    def file(self, inside: str, content: bytes = b"stand-in", mode: int = 0o644) -> Path:
        path = self.path / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
        return path

    def link(self, inside: str, target: str) -> None:
        path = self.path / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def find(self, version: str = VERSION) -> DriverFiles:
        return find_driver_files(self.roots, version)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    path = tmp_path / "driver"
    path.mkdir()
    return Root(path)


def library(inside: str, *, host: str | None = None, soname: str | None = None) -> DriverLibrary:
    """A library at ``inside``, whose file on the host is ``host`` where a link leads elsewhere."""
    folder = inside.rpartition("/")[0]
    return DriverLibrary(
        host_path=f"{HOST}/{host or inside}",
        container_path=f"/{inside}",
        soname_path=f"/{folder}/{soname}" if soname else None,
    )


def test_libraries_and_binaries_of_the_version_are_found(root: Root) -> None:
    root.file(f"usr/lib64/{CUDA}", make_elf(b"libcuda.so.1"))
    root.file(f"usr/lib64/libnvidia-ml.so.{VERSION}", make_elf(b"libnvidia-ml.so.1"))
    root.file("usr/lib64/libcuda.so.570.10", make_elf(b"libcuda.so.1"))
    root.file("usr/lib64/libc.so.6", make_elf(b"libc.so.6"))
    root.file("usr/bin/nvidia-smi", b"#!/bin/sh\n", 0o755)
    root.file("usr/bin/nvidia-cdi-hook", b"", 0o755)
    assert root.find() == DriverFiles(
        driver_version=VERSION,
        libraries=(
            library(f"usr/lib64/{CUDA}", soname="libcuda.so.1"),
            library(f"usr/lib64/libnvidia-ml.so.{VERSION}", soname="libnvidia-ml.so.1"),
        ),
        binaries=(DriverFile(host_path=f"{HOST}/usr/bin/nvidia-smi", container_path="/usr/bin/nvidia-smi"),),
        cdi_hook=DriverFile(host_path=f"{HOST}/usr/bin/nvidia-cdi-hook", container_path="/usr/bin/nvidia-cdi-hook"),
        loader_folders=("/usr/lib64", "/usr/lib/x86_64-linux-gnu"),
    )


def test_libraries_for_arm_are_seen_where_arms_loaders_look(root: Root) -> None:
    content = bytearray(make_elf(b"libcuda.so.1"))
    content[18:20] = (183).to_bytes(2, "little")
    root.file(f"usr/lib64/{CUDA}", bytes(content))
    assert root.find().loader_folders == ("/usr/lib64", "/usr/lib/aarch64-linux-gnu")


@pytest.mark.parametrize("folder", ["usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib64", "usr/lib"])
def test_each_distributions_folder_is_searched(root: Root, folder: str) -> None:
    root.file(f"{folder}/{CUDA}")
    assert root.find().libraries == (library(f"{folder}/{CUDA}"),)


@pytest.mark.parametrize(
    ("folder", "seen_in"),
    [
        pytest.param("usr/lib/x86_64-linux-gnu/nvidia/current", "usr/lib/x86_64-linux-gnu", id="Debian"),
        pytest.param("usr/lib/aarch64-linux-gnu/nvidia/current", "usr/lib/aarch64-linux-gnu", id="Debian on Arm"),
        pytest.param("usr/lib/nvidia", "usr/lib", id="Bottlerocket"),
        # https://github.com/bottlerocket-os/bottlerocket-kernel-kit/pull/424
        pytest.param("usr/lib/nvidia/tesla", "usr/lib", id="Bottlerocket, as it installs them"),
        pytest.param("glibc/lib", "usr/lib", id="Talos before 1.9"),
        pytest.param("lib", "lib", id="Talos"),
    ],
)
def test_a_folder_of_one_distribution_is_seen_where_every_loader_looks(root: Root, folder: str, seen_in: str) -> None:
    """A container without the host's ld.so.conf finds nothing in ``nvidia/current``.

    https://github.com/NVIDIA/nvidia-container-toolkit/issues/1456, https://github.com/NVIDIA/k8s-device-plugin/pull/1001,
    https://github.com/bottlerocket-os/bottlerocket-kernel-kit/issues/365
    """
    root.file(f"{folder}/{CUDA}", make_elf(b"libcuda.so.1"))
    expected = DriverLibrary(
        host_path=f"{HOST}/{folder}/{CUDA}", container_path=f"/{seen_in}/{CUDA}", soname_path=f"/{seen_in}/libcuda.so.1"
    )
    assert root.find().libraries == (expected,)


def test_libraries_that_are_spread_over_two_folders_are_all_found(root: Root) -> None:
    """Debian: libcuda behind two links in a folder of its own, the rest in the usual one.

    https://github.com/NVIDIA/nvidia-container-toolkit/issues/1908
    """
    usual, own = "usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/nvidia/current"
    root.file(f"{own}/{CUDA}", make_elf(b"libcuda.so.1"))
    root.file(f"{own}/libnvidia-nvvm.so.{VERSION}", make_elf(b"libnvidia-nvvm.so.4"))
    root.link(f"{own}/libcuda.so.1", CUDA)
    root.link("etc/alternatives/glx--libcuda.so.1", f"/{own}/libcuda.so.1")
    root.link(f"{usual}/libcuda.so.1", "/etc/alternatives/glx--libcuda.so.1")
    root.file(f"{usual}/libnvidia-eglcore.so.{VERSION}", make_elf(f"libnvidia-eglcore.so.{VERSION}".encode()))
    assert [each.container_path for each in root.find().libraries] == [
        f"/{usual}/{CUDA}",
        f"/{usual}/libnvidia-eglcore.so.{VERSION}",
        f"/{usual}/libnvidia-nvvm.so.{VERSION}",
    ]


def test_a_folder_that_is_named_twice_by_a_link_is_searched_once(root: Root) -> None:
    root.file(f"usr/lib64/{CUDA}")
    root.link("lib64", "usr/lib64")
    assert root.find().libraries == (library(f"usr/lib64/{CUDA}"),)


def test_the_first_folder_wins_for_a_library_in_two(root: Root) -> None:
    root.file(f"usr/lib64/{CUDA}")
    root.file(f"usr/lib/{CUDA}")
    assert root.find().libraries == (library(f"usr/lib64/{CUDA}"),)


def test_a_folder_named_like_the_library_is_passed_over_and_reported(root: Root) -> None:
    """A bad bind mount leaves one; the real file is in a later folder (B53)."""
    (root.path / "usr/lib64" / CUDA).mkdir(parents=True)
    root.file(f"usr/lib/x86_64-linux-gnu/{CUDA}")
    found = root.find()
    assert found.libraries == (library(f"usr/lib/x86_64-linux-gnu/{CUDA}"),)
    assert found.skipped == (f"{root.path}/usr/lib64/{CUDA} is a folder",)


def test_a_soname_that_is_a_folder_is_passed_over_too(root: Root) -> None:
    (root.path / "usr/lib64/libnvidia-ml.so.1").mkdir(parents=True)
    root.file(f"usr/lib64/{CUDA}")
    root.file("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")
    assert library("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1") in root.find().libraries


def test_an_absolute_link_is_resolved_inside_the_root(root: Root) -> None:
    """It means the driver root's own folder, never the one of the same name on this machine (B53)."""
    root.file(f"opt/real/{CUDA}")
    root.link(f"usr/lib64/{CUDA}", f"/opt/real/{CUDA}")
    assert root.find().libraries == (library(f"usr/lib64/{CUDA}", host=f"opt/real/{CUDA}"),)


def test_a_link_to_a_file_outside_of_the_root_finds_nothing_and_is_reported(root: Root) -> None:
    outside = root.path.parent / "secret"
    outside.write_text("")
    root.link("usr/lib64/libnvidia-ml.so.1", str(outside))
    root.link("usr/lib64/libnvidia-cfg.so.1", "../../../secret")
    root.file(f"usr/lib/{CUDA}")
    found = root.find()
    assert found.libraries == (library(f"usr/lib/{CUDA}"),)
    assert all("leads nowhere in the driver root" in skipped for skipped in found.skipped)
    assert len(found.skipped) == 2


def test_a_dangling_link_and_one_that_goes_round_are_passed_over(root: Root) -> None:
    root.link(f"usr/lib64/{CUDA}", "gone")
    root.link(f"usr/lib64/libnvidia-ml.so.{VERSION}", f"libnvidia-ml.so.{VERSION}")
    root.file(f"usr/lib/{CUDA}")
    found = root.find()
    assert found.libraries == (library(f"usr/lib/{CUDA}"),)
    assert len(found.skipped) == 2


def test_a_chain_of_links_ends_at_the_file_that_is_mounted(root: Root) -> None:
    root.file(f"usr/lib64/{CUDA}")
    root.link("usr/lib64/libcuda.so.1", CUDA)
    root.link("usr/lib64/libcuda.so", "libcuda.so.1")
    assert root.find().libraries == (library(f"usr/lib64/{CUDA}", soname="libcuda.so.1"),)


def test_a_library_only_under_its_soname_is_taken_as_that(root: Root) -> None:
    root.file("usr/lib64/libcuda.so.1")
    assert root.find().libraries == (library("usr/lib64/libcuda.so.1"),)


def test_a_soname_that_leads_to_another_version_is_not_taken(root: Root) -> None:
    """The kernel module refuses a libcuda of another version; a leftover of an upgrade must not be mounted."""
    root.file("usr/lib64/libcuda.so.570")
    root.link("usr/lib64/libcuda.so.1", "libcuda.so.570")
    with pytest.raises(DeviceNotReady, match="another driver version"):
        root.find()
    assert root.find("570").libraries == (library("usr/lib64/libcuda.so.570", soname="libcuda.so.1"),)


def test_the_soname_comes_out_of_the_library_itself(root: Root) -> None:
    """Some have a number other than 1, and the link beside them may be missing."""
    root.file(f"usr/lib64/{CUDA}")
    root.file(f"usr/lib64/libnvidia-nvvm.so.{VERSION}", make_elf(b"libnvidia-nvvm.so.4"))
    assert library(f"usr/lib64/libnvidia-nvvm.so.{VERSION}", soname="libnvidia-nvvm.so.4") in root.find().libraries


def test_a_stand_in_is_called_as_the_link_beside_it(root: Root) -> None:
    root.file(f"usr/lib64/{CUDA}")
    root.file(f"usr/lib64/libnvidia-nvvm.so.{VERSION}")
    root.link("usr/lib64/libnvidia-nvvm.so.4", f"libnvidia-nvvm.so.{VERSION}")
    assert library(f"usr/lib64/libnvidia-nvvm.so.{VERSION}", soname="libnvidia-nvvm.so.4") in root.find().libraries


def test_a_library_that_is_called_by_its_soname_already_needs_no_second_place(root: Root) -> None:
    name = f"libnvidia-gpucomp.so.{VERSION}"
    root.file(f"usr/lib64/{CUDA}")
    root.file(f"usr/lib64/{name}", make_elf(name.encode()))
    assert library(f"usr/lib64/{name}") in root.find().libraries


def test_a_32_bit_library_is_passed_over(root: Root) -> None:
    root.file(f"usr/lib64/{CUDA}", b"\x7fELF\x01\x01" + bytes(100))
    root.file(f"usr/lib/x86_64-linux-gnu/{CUDA}", make_elf(b"libcuda.so.1"))
    found = root.find()
    assert found.libraries == (library(f"usr/lib/x86_64-linux-gnu/{CUDA}", soname="libcuda.so.1"),)
    assert found.skipped == (f"{root.path}/usr/lib64/{CUDA} is no 64-bit library",)


def test_a_binary_that_cannot_be_run_or_is_a_folder_is_passed_over(root: Root) -> None:
    root.file(f"usr/lib64/{CUDA}")
    (root.path / "usr/bin/nvidia-smi").mkdir(parents=True)
    root.file("usr/sbin/nvidia-smi", b"", 0o644)
    root.file("usr/local/bin/nvidia-smi", b"", 0o755)
    found = root.find()
    assert [binary.container_path for binary in found.binaries] == ["/usr/local/bin/nvidia-smi"]
    assert found.cdi_hook is None
    assert len(found.skipped) == 2


def test_a_binary_behind_a_linked_folder_is_given_by_its_real_file(root: Root) -> None:
    root.file(f"usr/lib64/{CUDA}")
    root.file("opt/driver/nvidia-smi", b"", 0o755)
    root.link("usr/bin", "/opt/driver")
    smi = DriverFile(host_path=f"{HOST}/opt/driver/nvidia-smi", container_path="/usr/bin/nvidia-smi")
    assert root.find().binaries == (smi,)


def test_without_libcuda_the_device_is_not_ready_and_the_places_are_named(root: Root) -> None:
    root.file(f"usr/lib64/libnvidia-ml.so.{VERSION}")
    with pytest.raises(DeviceNotReady, match=f"{VERSION}.*{root.path}.*usr/lib64"):
        root.find()


def test_a_root_that_is_not_there_is_not_ready(tmp_path: Path) -> None:
    with pytest.raises(DeviceNotReady, match="nothing-here"):
        find_driver_files(Roots(driver=tmp_path / "nothing-here"), VERSION)


@pytest.mark.parametrize("version", ["", "../..", "580/159", "*", ".1", "580\n", "x" * 65])
def test_a_version_that_is_no_part_of_a_file_name_is_refused(root: Root, version: str) -> None:
    with pytest.raises(DeviceNotReady, match="driver version"):
        root.find(version)


def test_where_the_root_is_the_hosts_own_paths_are_the_same_inside_and_out(root: Root) -> None:
    root.file(f"usr/lib64/{CUDA}")
    roots = Roots(driver=root.path, driver_on_host=Path("/"))
    (found,) = find_driver_files(roots, VERSION).libraries
    assert found.host_path == found.container_path == f"/usr/lib64/{CUDA}"
