"""The driver's own programs, and what they need where the driver lies under a root of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.errors import DeviceNotReady
from driver.host.driver_files import DriverFiles, DriverLibrary
from driver.host.namespaces import is_on_host_files, sees_host_processes
from driver.host.programs import find_program, list_libraries, on_host
from driver.host.roots import Roots

FILES = DriverFiles(
    driver_version="580.1",
    libraries=(
        DriverLibrary(
            host_path="/run/nvidia/driver/usr/lib64/libcuda.so.580.1",
            container_path="/usr/lib64/libcuda.so.580.1",
            soname_path="/usr/lib64/libcuda.so.1",
        ),
        DriverLibrary(
            host_path="/run/nvidia/driver/usr/lib64/libx.so.580.1", container_path="/usr/lib64/libx.so", soname_path=None
        ),
    ),
    binaries=(),
    cdi_hook=None,
)


def roots(driver: Path, driver_on_host: Path = Path("/run/nvidia/driver")) -> Roots:
    return Roots(driver=driver, driver_on_host=driver_on_host)


def test_a_program_is_found_in_the_order_of_folders_and_through_links(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt/smi").write_text("")
    (tmp_path / "usr/bin/nvidia-smi").symlink_to("/opt/smi")
    assert find_program(roots(tmp_path), "nvidia-smi") == tmp_path / "opt/smi"


def test_none_and_a_folder_of_its_name_are_no_program(tmp_path: Path) -> None:
    (tmp_path / "usr/bin/nvidia-smi").mkdir(parents=True)
    with pytest.raises(DeviceNotReady, match="there is no nvidia-smi in driver root"):
        find_program(roots(tmp_path), "nvidia-smi")


def test_libraries_have_the_names_that_a_loader_asks_for(tmp_path: Path) -> None:
    here = tmp_path / "usr/lib64"
    assert list_libraries(roots(tmp_path), FILES) == {
        "libcuda.so.580.1": here / "libcuda.so.580.1",
        "libcuda.so.1": here / "libcuda.so.580.1",
        "libx.so": here / "libx.so.580.1",
    }
    assert list_libraries(roots(tmp_path), FILES, on_host=True)["libcuda.so.1"] == Path(FILES.libraries[0].host_path)


def test_at_the_root_the_loader_finds_them_itself(tmp_path: Path) -> None:
    assert list_libraries(roots(Path("/")), FILES) == {}
    assert list_libraries(roots(tmp_path, Path("/")), FILES, on_host=True) == {}


def test_a_path_below_the_driver_root_is_known_to_the_host(tmp_path: Path) -> None:
    assert on_host(roots(tmp_path), tmp_path / "usr/bin/x") == Path("/run/nvidia/driver/usr/bin/x")


@pytest.mark.parametrize(
    ("pid", "own", "first", "name", "expected"),
    [
        ("pid:[4026531836]", "mnt:[1]", "mnt:[1]", "systemd", (True, True)),
        ("pid:[4026531836]", "mnt:[2]", "mnt:[1]", "systemd", (True, False)),
        ("pid:[4026539999]", "mnt:[2]", "mnt:[2]", "gpu-dra", (False, True)),
        ("pid:[4026539999]", "mnt:[2]", "mnt:[1]", "pause", (False, False)),
        ("pid:[4026539999]", "mnt:[2]", "mnt:[1]", "systemd", (True, False)),
        ("pid:[4026539999]", "mnt:[2]", "", "", (False, False)),
        ("pid:[4026531836]", "", "", "", (True, False)),
    ],
    ids=[
        "on the host",
        "container with hostPID",
        "plain container",
        "containers that share their processes",
        "container with hostPID on a node that is a container",
        "first process unreadable",
        "nothing readable",
    ],
)
def test_where_this_process_runs(
    tmp_path: Path, pid: str, own: str, first: str, name: str, expected: tuple[bool, bool]
) -> None:
    for link, target in (("self/ns/pid", pid), ("self/ns/mnt", own), ("1/ns/mnt", first)):
        (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
        if target:
            (tmp_path / link).symlink_to(target)
    if name:
        (tmp_path / "1/comm").write_text(f"{name}\n")
    assert (sees_host_processes(tmp_path), is_on_host_files(tmp_path)) == expected
