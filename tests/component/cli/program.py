"""Runs ``gpu-dra`` in this process, as a person's shell would."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from driver.cli.main import parse, run


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a run ended."""

    code: int
    out: str
    err: str


class Program:
    """``program("inspect", "--nvml", "mock:t4")``."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *argv: str) -> Ended:
        self._capsys.readouterr()
        try:
            code = run(parse(argv))
        except SystemExit as err:
            code = err.code if isinstance(err.code, int) else 1
        out, said = self._capsys.readouterr()
        return Ended(code=code, out=out, err=said)
