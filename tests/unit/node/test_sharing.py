"""Where a node's MPS daemons have their folders."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from driver.node.ground import NodeGround
from driver.node.sharing import build_sharing


def build_ground(mps_dir: Path, node: str) -> NodeGround:
    settings: dict[str, Any] = {"mps_dir": mps_dir, "driver_name": "gpu.nvidia.com", "isolates_mps": False}
    return cast(
        NodeGround, SimpleNamespace(settings=SimpleNamespace(pool=SimpleNamespace(pool=node), **settings), open_nvml=None)
    )


@pytest.mark.parametrize("node", ["node-a", "n" * 253])
def test_the_folder_can_be_made_whatever_the_nodes_name(tmp_path: Path, node: str) -> None:
    """A file's name has at most 255 bytes, and the driver's stands there too."""
    folder = build_sharing(build_ground(tmp_path, node)).daemons.root
    folder.mkdir()
    assert folder.parent == tmp_path
