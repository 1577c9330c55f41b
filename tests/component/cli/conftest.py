"""What the tests of the program share."""

from __future__ import annotations

import os

import pytest

from tests.component.cli.program import Program


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program in an environment that says nothing to it."""
    for variable in [each for each in os.environ if each.startswith("GPU_DRA_") or each in {"NODE_NAME", "POD_UID"}]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("COLUMNS", "80")
    return Program(capsys)
