"""Builds the Go program, and asks it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PROGRAM = Path.home() / ".cache" / "gpu-dra-oracle" / "oracle"


def build() -> Path:
    """The program, built anew where its source is newer."""
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < (HERE / "main.go").stat().st_mtime:
        print("building the oracle (a minute or two the first time)", file=sys.stderr)
        PROGRAM.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["go", "build", "-o", str(PROGRAM), "."], cwd=HERE, check=True, env={**os.environ, "GOFLAGS": "-p=1"})
    return PROGRAM


def ask(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The oracle's answer to each question."""
    return [json.loads(line)["expected"] for line in run(questions)]


def run(questions: Sequence[dict[str, Any]], *arguments: str) -> list[str]:
    """The lines that the oracle prints."""
    text = "".join(json.dumps(question) + "\n" for question in questions)
    done = subprocess.run([str(build()), *arguments], input=text, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()
