"""What is printed of scenarios that pass, fail, and fail once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.e2e import runner
from tests.e2e.runner import Scenario, run_scenarios
from tests.e2e.stage import Stage


class Fails:
    """A scenario that fails ``count`` times, and passes then."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __call__(self, _stage: Stage) -> str:
        self.left -= 1
        if self.left >= 0:
            raise AssertionError("no GPU came")
        return "a GPU came"


def run(monkeypatch: pytest.MonkeyPatch, *failures: int, tries: int = 1, minor: int = 37, needs_minor: int = 34) -> int:
    monkeypatch.setattr(runner, "dump_state", lambda *_: None)
    stage = cast("Stage", SimpleNamespace(controllers=[], plugins=[], minor=minor, clear=lambda: None))
    scenarios = [
        Scenario(name=f"number {place}", run=Fails(count), needs_minor=needs_minor) for place, count in enumerate(failures)
    ]
    return run_scenarios(stage, scenarios, Path(), tries=tries)


def test_all_pass(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, 0, 0) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 passed, 0 failed"


def test_what_failed_is_told_once_more_at_the_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The beginning of a long log is cut where it is read."""
    assert run(monkeypatch, 1, 0) == 1
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "1 passed, 1 failed",
        "failed:",
        "  number 0: AssertionError: no GPU came",
    ]


def test_one_that_passes_when_begun_again_is_unsteady(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, 1, 0, tries=2) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "2 passed, 0 failed",
        "unsteady: passed when begun again:",
        "  number 0: AssertionError: no GPU came",
    ]


def test_one_that_fails_each_time_has_failed_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, 2, 0, tries=2) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "1 passed, 1 failed" in lines
    assert lines[-2:] == ["  number 0: AssertionError: no GPU came"] * 2


def test_what_this_kubernetes_cannot_do_is_neither(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, 1, minor=34, needs_minor=36) == 0
    out = capsys.readouterr().out
    assert "n/a" in out
    assert "0 passed, 0 failed" in out
