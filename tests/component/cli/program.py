"""Runs ``gpu-dra`` in this process, as a person's shell would."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
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
    """``program("inspect", "--nvml", "mock:t4")``; or another program of ours by its ``parse`` and its name."""

    def __init__(
        self,
        capsys: pytest.CaptureFixture[str],
        parse_line: Callable[[Sequence[str]], argparse.Namespace] = parse,
        name: str = "gpu-dra",
    ) -> None:
        self._capsys = capsys
        self._parse = parse_line
        self._name = name

    def __call__(self, *argv: str) -> Ended:
        self._capsys.readouterr()
        try:
            code = run(self._parse(argv), program=self._name)
        except SystemExit as err:
            code = err.code if isinstance(err.code, int) else 1
        out, said = self._capsys.readouterr()
        return Ended(code=code, out=out, err=said)
