"""The import contracts of `pyproject.toml` catch what they are there for.

A copy of `driver/` gets one forbidden import for each rule, and import-linter has to name every one of them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hack.checks.tree import REPOSITORY

BREACHES = {
    "the core reads a clock": ("topology/names.py", "import time", "driver.topology.names -> time"),
    "the core makes ids": ("claims/precedence.py", "import uuid", "driver.claims.precedence -> uuid"),
    "the core asks the system": ("api/resource_v1.py", "import os", "driver.api.resource_v1 -> os"),
    "the core logs": ("topology/build.py", "from driver import log", "driver.topology.build -> driver.log"),
    "a low package looks up": (
        "nvml/readings.py",
        "import driver.topology.model",
        "driver.nvml.readings -> driver.topology.model",
    ),
    "siblings know each other": (
        "resourceslice/content.py",
        "import driver.claims.model",
        "driver.resourceslice.content -> driver.claims.model",
    ),
    "a part reads settings": ("node/__init__.py", "import driver.config.settings", "driver.node -> driver.config.settings"),
    "a part chooses the mock": ("node/machine.py", "import driver.nvml.mock", "driver.node.machine -> driver.nvml.mock"),
    "a part chooses NVML": ("node/machine.py", "import driver.nvml.real", "driver.node.machine -> driver.nvml.real"),
    "a claim goes to the API server": (
        "claims/plan.py",
        "import driver.kube.backoff",
        "driver.claims.plan -> driver.kube.backoff",
    ),
    "the kubelet's side sees hardware": (
        "plugin/sockets.py",
        "import driver.nvml.library",
        "driver.plugin.sockets -> driver.nvml.library",
    ),
    "the machine's side sees Kubernetes": (
        "host/pci.py",
        "import driver.api.meta_v1",
        "driver.host.pci -> driver.api.meta_v1",
    ),
    "two packages use one library": (
        "claims/__init__.py",
        "import prometheus_client",
        "driver.claims -> prometheus_client",
    ),
    "the controller's books read a clock": ("controller/books/pods.py", "import time", "driver.controller.books.pods -> time"),
    "what decides writes": (
        "controller/deciding/lessons.py",
        "import driver.controller.writing.attempt",
        "driver.controller.deciding.lessons -> driver.controller.writing.attempt",
    ),
    "what writes asks the books' owner": (
        "controller/writing/threads.py",
        "import driver.controller.acting.ledger",
        "driver.controller.writing.threads -> driver.controller.acting.ledger",
    ),
    "a stub is used outside of the plugin": ("node/__init__.py", "import grpc", "driver.node -> grpc"),
}


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What import-linter says of a tree that has all the breaches."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(REPOSITORY / "driver", tree / "driver", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(REPOSITORY / "pyproject.toml", tree / "pyproject.toml")
    for file, line, _ in BREACHES.values():
        with (tree / "driver" / file).open("a") as text:
            text.write(f"\n{line}\n")
    for name, line in (("utils", ""), ("host/one", "import driver.host.two"), ("host/two", "import driver.host.one")):
        (tree / "driver" / f"{name}.py").write_text(f"{line}\n")
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False, env={"COLUMNS": "200"})
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("breach", BREACHES)
def test_breach_is_named(verdict: str, breach: str) -> None:
    expected = BREACHES[breach][2]
    assert any(line.lstrip("- ").startswith(expected) for line in verdict.splitlines()), verdict


def test_package_without_a_place_is_named(verdict: str) -> None:
    """A new package is put into the picture, or is not made."""
    assert "The following modules are not listed as layers:\n\n- driver.utils\n" in verdict, verdict


def test_cycle_inside_a_package_is_named(verdict: str) -> None:
    assert "No cycles are allowed in driver.host" in verdict, verdict
