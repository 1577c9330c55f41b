"""A small repository for the checks to look at."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

MakeTree = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def make_tree(tmp_path: Path) -> MakeTree:
    """Writes files, by path and text, into a git repository; returns its folder."""

    def make(files: Mapping[str, str]) -> Path:
        subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make
