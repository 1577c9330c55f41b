"""The driver's own programs that this process runs, and what they need where the driver lies under a root of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from driver.errors import DeviceNotReady
from driver.host.driver_files import BINARY_FOLDERS, DriverFiles
from driver.host.inside import resolve_inside
from driver.host.roots import Roots


def find_program(roots: Roots, name: str) -> Path:
    """The program of this name below the driver root, as this process sees it.

    Raises:
        DeviceNotReady: there is none.
    """
    for folder in BINARY_FOLDERS:
        try:
            path = roots.driver / resolve_inside(roots.driver, f"{folder}/{name}")
        except OSError:
            continue
        if path.is_file():
            return path
    raise DeviceNotReady(
        f"there is no {name} in driver root {roots.driver}: looked in {', '.join(BINARY_FOLDERS)}; is the driver whole?"
    )


def on_host(roots: Roots, path: Path) -> Path:
    """A path below the driver root as the host has it."""
    return roots.driver_on_host / path.relative_to(roots.driver)


def list_libraries(roots: Roots, files: DriverFiles, *, on_host: bool = False) -> Mapping[str, Path]:
    """The driver's libraries by the names that a loader looks for; none at ``/``, where it finds them by itself."""
    root = roots.driver_on_host if on_host else roots.driver
    if root == Path("/"):
        return {}
    found = {}
    for library in files.libraries:
        path = root / PurePosixPath(library.host_path).relative_to(roots.driver_on_host)
        for name in (library.container_path, library.soname_path):
            if name is not None:
                found[PurePosixPath(name).name] = path
    return found
