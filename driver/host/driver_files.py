"""The driver's user-space files under the driver root: what a container gets beside its device nodes.

They are found by name below a few folders, without ldconfig's cache, which a stand-in or minimal root does not have. Only what
resolves, inside the root, to a regular file counts: a folder named like a library (left by a bad bind mount) is passed over and
reported, and the search goes on (B53).
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from driver.errors import DeviceNotReady
from driver.host.elf import read_elf
from driver.host.inside import resolve_inside
from driver.host.roots import Roots

# Where to look, below the driver root, in this order.
LIBRARY_FOLDERS = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/local/nvidia/lib64",
    "usr/lib",
    "usr/lib/x86_64-linux-gnu/nvidia/current",
    "usr/lib/aarch64-linux-gnu/nvidia/current",
    "usr/lib/nvidia",
    "usr/lib/nvidia/tesla",
    "lib",
    "glibc/lib",
)
_SEEN_IN = {
    "usr/lib/x86_64-linux-gnu/nvidia/current": "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu/nvidia/current": "usr/lib/aarch64-linux-gnu",
    "usr/lib/nvidia": "usr/lib",
    "usr/lib/nvidia/tesla": "usr/lib",
    "glibc/lib": "usr/lib",
}
"""Folders of one distribution (Debian, Bottlerocket, Talos) that no container's loader looks into, and where it does look."""

_X86_64, _AARCH64 = 62, 183
LOADER_FOLDERS = {
    _X86_64: ("/usr/lib64", "/usr/lib/x86_64-linux-gnu"),
    _AARCH64: ("/usr/lib64", "/usr/lib/aarch64-linux-gnu"),
}
"""Where the loaders of Red Hat and of Debian, and of what descends from them, look by themselves; by ELF's machine."""

BINARY_FOLDERS = ("usr/bin", "bin", "usr/sbin", "sbin", "usr/local/bin", "usr/local/nvidia/bin", "opt/bin")

SONAMES = ("libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1", "libnvidia-cfg.so.1", "libnvcuvid.so.1")
"""Names that are looked for also where no file of the driver's version stands behind them."""

BINARIES = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-imex",
    "nvidia-imex-ctl",
)
CDI_HOOK = "nvidia-cdi-hook"
_CUDA = "libcuda.so"
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]{0,63}", re.ASCII)
_MOST_ENTRIES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFile:
    """A regular file: where the container runtime finds it, every link followed, and where the container is to see it."""

    host_path: str
    container_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverLibrary(DriverFile):
    """A library. ``soname_path`` is where it must stand too, or the loader does not find it without ldconfig's cache (R43).

    None where the library has no such name, or is called by it already.
    """

    soname_path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFiles:
    """What was found under one driver root for one driver version."""

    driver_version: str
    libraries: tuple[DriverLibrary, ...]
    binaries: tuple[DriverFile, ...]
    cdi_hook: DriverFile | None
    """NVIDIA's ``nvidia-cdi-hook``, for the runtime to call on the host; None where the root has none."""
    loader_folders: tuple[str, ...] = ()
    """Where a container's loader may look by itself: an image need not be of the node's distribution. None for stand-ins."""
    skipped: tuple[str, ...] = ()
    """What was passed over, and why; for the log."""


def find_driver_files(roots: Roots, driver_version: str) -> DriverFiles:
    """Looks for the files of ``driver_version`` (NVML's text) under ``roots.driver``.

    Raises:
        DeviceNotReady: there is no libcuda of this version, so no program could use the GPU; names what was tried.
    """
    if _VERSION.fullmatch(driver_version) is None:
        raise DeviceNotReady(f"driver version {driver_version[:80]!r} cannot be part of a file name")
    search = _Search(roots, driver_version)
    libraries = search.find_libraries()
    if not any(PurePosixPath(library.container_path).name.startswith(_CUDA) for library in libraries):
        raise DeviceNotReady(_no_cuda_text(roots, driver_version, search.skipped))
    binaries = (search.find_binary(name) for name in BINARIES)
    return DriverFiles(
        driver_version=driver_version,
        libraries=libraries,
        binaries=tuple(binary for binary in binaries if binary is not None),
        cdi_hook=search.find_binary(CDI_HOOK),
        loader_folders=LOADER_FOLDERS.get(search.machine, ()),
        skipped=tuple(search.skipped),
    )


def _no_cuda_text(roots: Roots, driver_version: str, skipped: list[str]) -> str:
    seen = f" Passed over: {'; '.join(skipped[:5])}." if skipped else ""
    return (
        f"no {_CUDA}.{driver_version} in driver root {roots.driver}: looked in {', '.join(LIBRARY_FOLDERS)}.{seen} "
        "Is the driver installed there, and in this version?"
    )


@dataclass(slots=True)
class _Search:
    roots: Roots
    driver_version: str
    skipped: list[str] = field(default_factory=list)
    machine: int = 0
    """That the libraries are for, as ELF has it."""

    def find_libraries(self) -> tuple[DriverLibrary, ...]:
        """The first file of each name in the order of folders; then the known SONAMEs that none of them stands behind."""
        wanted = f".so.{self.driver_version}"
        inside = self._real_folders()
        found: dict[str, DriverLibrary] = {}
        for folder, seen_in in inside.items():
            for name in self._names_in(folder, wanted):
                if name not in found and (library := self._library(folder, name, seen_in)) is not None:
                    found[name] = library
        named = {PurePosixPath(path).name for library in found.values() for path in _container_paths(library)}
        for soname in SONAMES:
            for folder, seen_in in inside.items():
                if soname not in named and (library := self._library(folder, soname, seen_in)) is not None:
                    found[soname] = library
                    named.add(soname)
        return tuple(found[name] for name in sorted(found))

    def find_binary(self, name: str) -> DriverFile | None:
        """The first executable regular file of this name."""
        for folder in BINARY_FOLDERS:
            real = self._regular_file(f"{folder}/{name}")
            if real is None:
                continue
            if not os.access(self.roots.driver / real, os.X_OK):
                self.skipped.append(f"{self.roots.driver / folder / name} is not executable")
                continue
            return DriverFile(host_path=self._on_host(real), container_path=f"/{folder}/{name}")
        return None

    def _real_folders(self) -> dict[PurePosixPath, PurePosixPath]:
        """Each with where a container is to see it; without repeats: ``lib64`` is mostly a link to ``usr/lib64``."""
        real: dict[PurePosixPath, PurePosixPath] = {}
        for folder in LIBRARY_FOLDERS:
            try:
                path = resolve_inside(self.roots.driver, folder)
            except OSError:
                continue
            real.setdefault(path, PurePosixPath(_SEEN_IN.get(folder, path)))
        return real

    def _names_in(self, folder: PurePosixPath, wanted: str) -> list[str]:
        names: list[str] = []
        try:
            with os.scandir(self.roots.driver / folder) as entries:
                for count, entry in enumerate(entries):
                    if count >= _MOST_ENTRIES:
                        self.skipped.append(
                            f"{self.roots.driver / folder} has more than {_MOST_ENTRIES} entries; the rest is unread"
                        )
                        break
                    if entry.name.startswith("lib") and entry.name.endswith(wanted):
                        names.append(entry.name)
        except OSError as err:
            self.skipped.append(f"{self.roots.driver / folder}: {err.strerror}")
        return sorted(names)

    def _library(self, folder: PurePosixPath, name: str, seen_in: PurePosixPath) -> DriverLibrary | None:
        real = self._regular_file(f"{folder}/{name}")
        if real is None:
            return None
        path = self.roots.driver / folder / name
        if real.name.partition(".so.")[2] not in ("", "1", self.driver_version):
            self.skipped.append(f"{path} leads to {real.name}, which is of another driver version")
            return None
        try:
            elf = read_elf(self.roots.driver / real)
        except OSError as err:
            self.skipped.append(f"{path}: {err.strerror}")
            return None
        if elf is not None and not elf.is_64_bit:
            self.skipped.append(f"{path} is no 64-bit library")
            return None
        self.machine = elf.machine if elf is not None else self.machine
        soname = elf.soname if elf is not None else self._name_beside(folder, name, real)
        return DriverLibrary(
            host_path=self._on_host(real),
            container_path=f"/{seen_in}/{name}",
            soname_path=f"/{seen_in}/{soname}" if soname not in (None, name) else None,
        )

    def _name_beside(self, folder: PurePosixPath, name: str, real: PurePosixPath) -> str | None:
        """The ``.so.<number>`` link that stands beside a stand-in and leads to it, where there is one."""
        stem = name.partition(".so.")[0]
        for number in range(1, 10):
            soname = f"{stem}.so.{number}"
            try:
                if resolve_inside(self.roots.driver, f"{folder}/{soname}") == real:
                    return soname
            except OSError:
                continue
        return None

    def _regular_file(self, inside: str) -> PurePosixPath | None:
        """Where ``inside`` ends; None, with a word if it is there, when that is no regular file."""
        path = self.roots.driver / inside
        try:
            real = resolve_inside(self.roots.driver, inside)
            mode = (self.roots.driver / real).lstat().st_mode
        except OSError as err:
            if path.is_symlink():
                self.skipped.append(f"{path} is a link that leads nowhere in the driver root ({err.strerror})")
            return None
        if not stat.S_ISREG(mode):
            self.skipped.append(f"{path} is {'a folder' if stat.S_ISDIR(mode) else 'no regular file'}")
            return None
        return real

    def _on_host(self, real: PurePosixPath) -> str:
        return str(self.roots.driver_on_host / real)


def _container_paths(library: DriverLibrary) -> tuple[str, ...]:
    return (library.container_path,) if library.soname_path is None else (library.container_path, library.soname_path)
