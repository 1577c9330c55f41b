"""A folder of daemons, and the stand-in program that a mock machine brings."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from driver.mps.daemon import Daemons
from driver.mps.daemon_files import DaemonSpec
from driver.mps.launch import Tools
from driver.nvml.mock.mps_control import MPS_CONTROL

GPU = "GPU-5f1a4a54-0000-4000-8000-000000000001"
OTHER = "GPU-5f1a4a54-0000-4000-8000-000000000002"


@dataclass
class Stage:
    """One machine; ``program`` may be replaced by a test."""

    folder: Path
    program: Path
    ready_s: float = 20.0
    opened: list[Daemons] = field(default_factory=list)

    def open(self, *, ready_s: float = 0.0) -> Daemons:
        """A plugin's view of the daemons; twice is a restarted plugin, or a second one."""
        daemons = Daemons(
            root=self.folder / "mps",
            find_tools=lambda: Tools(program=self.program, libraries={}),
            isolates=False,
            ready_s=ready_s or self.ready_s,
        )
        self.opened.append(daemons)
        return daemons

    def write_program(self, text: str) -> None:
        """Another program of the driver's."""
        self.program.write_text(text)
        self.program.chmod(0o755)


@pytest.fixture
def stage() -> Iterator[Stage]:
    folder = Path(tempfile.mkdtemp(prefix="mps", dir="/tmp"))
    made = Stage(folder=folder, program=folder / "nvidia-cuda-mps-control")
    made.write_program(MPS_CONTROL)
    try:
        yield made
    finally:
        daemons = made.open()
        for name in daemons.list_names():
            daemons.stop(name)
        shutil.rmtree(folder)


Build = Callable[..., DaemonSpec]


def spec(name: str = "claim-config-0", **changes: object) -> DaemonSpec:
    values: dict[str, object] = {"name": name, "uuids": (GPU,), **changes}
    return DaemonSpec(**values)  # type: ignore[arg-type]  # values of the test
