"""CI runs the checks, then the scenarios, fails when either does, and leaves nothing running."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hack.checks.tree import REPOSITORY

MAKE = """#!/bin/bash
echo "$*" >> calls
for word in "$@"; do [ "$word" != "$SPARES" ] || exit 0; done
for word in "$@"; do [ "$word" != "$FAILS" ] || exit 2; done
"""


def run_ci(folder: Path, *, fails: str, spares: str = "none") -> subprocess.CompletedProcess[str]:
    """Runs a copy of `.ci/run` with a stand-in for make, of which one target fails, but with the word ``spares``."""
    (folder / ".ci").mkdir()
    shutil.copy(REPOSITORY / ".ci" / "run", folder / ".ci" / "run")
    tools = folder / "tools"
    tools.mkdir()
    (tools / "make").write_text(MAKE)
    (tools / "make").chmod(0o755)
    environ = {"PATH": f"{tools}:{os.environ['PATH']}", "FAILS": fails, "SPARES": spares}
    return subprocess.run([folder / ".ci" / "run"], env=environ, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("fails", "status", "ends"),
    [
        pytest.param("nothing", 0, ["test: passed", "e2e: passed"], id="all is well"),
        pytest.param(
            "test", 1, ["test: FAILED with 2", "failed: test", "again: FAILED with 2", "e2e: passed"], id="a check fails"
        ),
        pytest.param("e2e", 1, ["test: passed", "e2e: FAILED with 2"], id="a scenario fails"),
    ],
)
def test_ci_fails_when_a_step_does_and_says_which(tmp_path: Path, fails: str, status: int, ends: list[str]) -> None:
    done = run_ci(tmp_path, fails=fails)
    summary = done.stdout.partition("=== summary\n")[2].splitlines()
    said = [f"{line.split()[0]}: {' '.join(line.split()[3:])}" for line in summary]
    assert (done.returncode, said) == (status, ends)


def test_ci_calls_the_commands_of_people_in_order_and_tidies_up(tmp_path: Path) -> None:
    run_ci(tmp_path, fails="test")
    assert (tmp_path / "calls").read_text().splitlines() == [
        "--keep-going test",
        "--keep-going test ARGS=--last-failed",
        "e2e ARGS=--tries 2",
        "cluster-down",
    ]


def test_tests_that_pass_when_begun_again_are_named_and_do_no_harm(tmp_path: Path) -> None:
    cache = tmp_path / ".pytest_cache" / "v" / "cache"
    cache.mkdir(parents=True)
    (cache / "lastfailed").write_text('{\n  "tests/unit/test_slow.py::test_slow": true\n}')
    done = run_ci(tmp_path, fails="test", spares="ARGS=--last-failed")
    assert done.returncode == 0
    assert 'failed once: {  "tests/unit/test_slow.py::test_slow": true}' in done.stdout.partition("=== summary\n")[2]


def test_ci_says_what_it_runs_and_how_long_it_took(tmp_path: Path) -> None:
    lines = run_ci(tmp_path, fails="nothing").stdout.splitlines()
    assert [line.partition(" (started")[0] for line in lines if "(started" in line] == [
        "=== test: make --keep-going test",
        "=== e2e: make e2e ARGS=--tries 2",
    ]
    assert [line for line in lines if line.startswith("=== test ") and line.endswith(" s  passed")] != []
