"""These tests are about what is on disk, not about how long a disk takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fakes.claims import Node, claim, ref, result


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is synced: no test here takes the power away. That it is synced is tested with the files themselves."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Eight GPUs; claim n is allocated GPU n."""
    made = Node(tmp_path)
    made.api.put(*(claim(ref(n), [result(n)]) for n in range(8)))
    return made
