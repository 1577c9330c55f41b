"""The benchmark works; what it measured in a test says nothing about speed, and is not looked at."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from hack.bench.processes import ROOT

FIELDS = {"name": str, "value": float, "unit": str, "p50": float, "p95": float, "n": int}


@pytest.mark.timeout(300)
def test_quick_run_prints_a_well_formed_line_for_each_figure() -> None:
    """Of every measure; every call of it was answered without an error."""
    ended = subprocess.run(
        [sys.executable, "-m", "hack.bench", "--quick", "--clients", "2"],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    figures = [json.loads(line) for line in ended.stdout.splitlines()]
    for figure in figures:
        assert {key: type(figure[key]) for key in FIELDS} == FIELDS
        assert ("ratio" in figure) == ("floor_p50" in figure)
        assert ("met" in figure) == ("target" in figure)
    names = [figure["name"] for figure in figures]
    assert len(set(names)) == len(names)
    assert {
        "start",
        "restart",
        "writes_at_restart",
        "deleted_slices_back",
        "idle_cpu",
        "idle_requests",
        "prepare",
        "prepare_again",
        "unprepare",
        "prepare_8_in_one_call",
        "prepare_8_held",
        "rate_8_callers",
        "memory_after_load",
    } <= set(names)
