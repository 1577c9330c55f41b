"""What the launcher says of a machine that cannot give a daemon a place of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from driver.mps import launcher


def test_below_cgroup_v1_it_is_said_that_the_daemon_ends_with_the_container(tmp_path: Path) -> None:
    """The folder is an ordinary one there: writing a number into a file that nobody reads moves no process."""
    plan = {
        "enters_host": False,
        "control_group": str(tmp_path / "gpu-dra-mps"),
        "shared_memory": "",
        "identity": "",
        "command": ["/bin/sh", "-c", "echo served"],
        "environment": {},
    }
    command = [sys.executable, "-I", "-S", launcher.__file__, json.dumps(plan)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "served\n"
    assert "the daemon ends with the plugin's container" in done.stderr
    assert list((tmp_path / "gpu-dra-mps").iterdir()) == []
