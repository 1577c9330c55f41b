"""Folders short enough for a socket, and plugin servers that are stopped whatever a test does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.component.plugin.node import PluginNode


@pytest.fixture
def root() -> Iterator[Path]:
    """A kubelet's root directory; pytest's own folders are too long for socket names."""
    folder = Path(tempfile.mkdtemp(prefix="k", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def node(root: Path) -> Iterator[PluginNode]:
    """A node on which plugins may be started."""
    one = PluginNode(root)
    yield one
    one.stop_all()
