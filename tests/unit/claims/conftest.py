"""These tests are about what is on disk, not about how long a disk takes."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is synced: no test here takes the power away. That it is synced is tested with the files themselves."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
