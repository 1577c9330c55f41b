"""The commands that a page says need no cluster run, and print what the page shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hack.checks.snippets import LOCAL, Step, choose_steps, find_missing
from hack.checks.tree import REPOSITORY, list_files

PAGES = [path for path in list_files(REPOSITORY) if path.suffix == ".md"]
STEPS = {f"{path}:{step.block.line}": step for path in PAGES for step in choose_steps((REPOSITORY / path).read_text(), LOCAL)}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
def test_it_runs_and_prints_what_is_shown(step: Step) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPU_DRA_")}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{environment['PATH']}", "COLUMNS": "80"}
    command = ["bash", "-euo", "pipefail", "-c", step.block.text]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert find_missing(step.shown, done.stdout) is None, done.stdout
