"""The wheel has all that the program needs when it runs, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hack.checks.tree import REPOSITORY


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The files of a fresh wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_wheel_holds_the_package_and_its_papers_alone(names: list[str]) -> None:
    assert {Path(name).parts[0].partition("-")[0] for name in names} == {"driver", "gpu_dra"}


def test_wheel_tells_type_checkers_that_it_is_typed(names: list[str]) -> None:
    assert {"driver/py.typed", "driver/pb/dra/v1/api_pb2.pyi"} <= set(names)


def test_wheel_has_the_data_that_is_read_at_run_time(names: list[str]) -> None:
    data = {path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "driver").rglob("*.yaml")}
    assert data <= set(names)


def test_wheel_has_the_licence_and_the_command(names: list[str]) -> None:
    papers = {Path(*Path(name).parts[1:]).as_posix() for name in names if name.startswith("gpu_dra-")}
    assert {"licenses/LICENSE", "entry_points.txt", "METADATA"} <= papers
