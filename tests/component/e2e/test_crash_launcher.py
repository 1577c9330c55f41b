"""A process under the crash point dies before exactly the write that it was told, and at no other time."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
from pathlib import Path
from tests.e2e.crash_launcher import CrashPoint
control, folder = Path(sys.argv[1]), Path(sys.argv[2])
sys.addaudithook(CrashPoint(control, (str(folder),)))
(folder.parent / "elsewhere").write_text("not counted")
(folder / "a").write_text("1")
(folder / "a").read_text()
(folder / "a").rename(folder / "b")
descriptor = os.open(folder, os.O_RDONLY)
os.mkdir("c", dir_fd=descriptor)
os.remove("b", dir_fd=descriptor)
"""


def run_program(tmp_path: Path, step: int | None) -> tuple[int, list[str], str]:
    """Exit status, what is in the folder, and what the process was about to do."""
    folder, control = tmp_path / "counted", tmp_path / "control"
    folder.mkdir()
    if step is not None:
        control.write_text(str(step))
    command = [sys.executable, "-c", PROGRAM, str(control), str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, cwd=Path(__file__).parents[3])
    said = tmp_path / "control.done"
    return done.returncode, sorted(path.name for path in folder.iterdir()), said.read_text() if said.exists() else ""


@pytest.mark.parametrize(
    ("step", "left", "what"),
    [(1, [], "open"), (2, ["a"], "os.rename"), (3, ["b"], "os.mkdir"), (4, ["b", "c"], "os.remove")],
    ids=["before the file is made", "before its rename", "before a folder by descriptor", "before a removal by descriptor"],
)
def test_process_dies_before_the_chosen_write(tmp_path: Path, step: int, left: list[str], what: str) -> None:
    status, found, said = run_program(tmp_path, step)
    assert (status, found) == (-signal.SIGKILL, left)
    assert said.startswith(what)


@pytest.mark.parametrize("step", [None, 5], ids=["not armed", "armed beyond the last write"])
def test_process_lives_when_no_write_is_the_chosen_one(tmp_path: Path, step: int | None) -> None:
    assert run_program(tmp_path, step) == (0, ["c"], "")
