"""`make help` lists what there is, and setting up finds a Python that is new enough or says so."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from hack.checks.tree import REPOSITORY

MAKEFILE = (REPOSITORY / "Makefile").read_text()
PHONY = re.findall(r"^\.PHONY: (\S+)$", MAKEFILE, re.MULTILINE)
FIND_PYTHON = REPOSITORY / "hack" / "find-python.sh"


def run_make(*words: str) -> str:
    """What make prints; environment variables of a make that runs these tests are not handed on."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    command = ["make", "--no-print-directory", *words]
    return subprocess.run(command, cwd=REPOSITORY, env=environ, check=True, capture_output=True, text=True).stdout


def write_python(folder: Path, name: str, *, is_new_enough: bool) -> Path:
    """A stand-in that answers the question about its version."""
    path = folder / name
    path.write_text(f"#!/bin/sh\nexit {0 if is_new_enough else 1}\n")
    path.chmod(0o755)
    return path


def find_python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the script where only the stand-ins of the folder, and bash, are to be found."""
    (folder / "bash").symlink_to("/bin/bash")
    command = ["/bin/bash", str(FIND_PYTHON), *words]
    return subprocess.run(command, env={"PATH": str(folder)}, check=False, capture_output=True, text=True)


def test_help_is_what_make_does_alone() -> None:
    assert run_make() == run_make("help")


def test_help_lists_every_target() -> None:
    assert re.findall(r"^  make (\S+)", run_make("help"), re.MULTILINE) == PHONY


def test_help_says_something_of_every_target() -> None:
    assert [line for line in run_make("help").splitlines() if re.fullmatch(r"  make \S+\s*", line)] == []


def test_every_check_is_part_of_lint() -> None:
    """A check that is not in the list is one that nobody runs."""
    parts = re.search(r"^lint: (.*) ##", MAKEFILE, re.MULTILINE)
    assert parts is not None
    assert set(parts.group(1).split()) == {name for name in PHONY if name.startswith("lint-") or name.endswith("-check")}


def test_python_is_the_first_that_is_new_enough(tmp_path: Path) -> None:
    write_python(tmp_path, "python3", is_new_enough=False)
    newer = write_python(tmp_path, "python3.12", is_new_enough=True)
    assert find_python(tmp_path).stdout == f"{newer}\n"


def test_python_can_be_named(tmp_path: Path) -> None:
    write_python(tmp_path, "python3", is_new_enough=True)
    named = write_python(tmp_path, "my-python", is_new_enough=True)
    assert find_python(tmp_path, "my-python").stdout == f"{named}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param([], "looking for Python: none of 3.11 or later is in PATH", id="none found"),
        pytest.param(["python3"], "looking for Python: python3 is not Python 3.11 or later", id="the named one"),
    ],
)
def test_python_that_is_too_old_is_refused_with_a_reason(tmp_path: Path, words: list[str], message: str) -> None:
    write_python(tmp_path, "python3", is_new_enough=False)
    done = find_python(tmp_path, *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
