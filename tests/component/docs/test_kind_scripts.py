"""The scripts for kind ask the four programs for the right things in the right order; stand-ins record what they are asked."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hack.checks.tree import REPOSITORY

UP = REPOSITORY / "hack" / "kind" / "up.sh"
DOWN = REPOSITORY / "hack" / "kind" / "down.sh"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with stand-ins, that write a line each into ``asked``; ``kind get clusters`` prints the file ``clusters``."""
    (tmp_path / "clusters").write_text("")
    for name in ("kind", "helm", "kubectl", "docker"):
        path = tmp_path / name
        path.write_text(
            f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/asked\n'
            f'if [ "$1 $2" = "get clusters" ]; then cat {tmp_path}/clusters; fi\n'
            f"if [ -e {tmp_path}/{name}.fails ]; then exit 1; fi\n"
        )
        path.chmod(0o755)
    return tmp_path


def run(script: Path, programs: Path, **environment: str) -> tuple[int, list[str], str]:
    """The exit status, what was asked, and what was said of it."""
    path = f"{programs}:/usr/bin:/bin"
    done = subprocess.run(
        [str(script)],
        env={"PATH": path, "HOME": os.environ["HOME"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    asked = (programs / "asked").read_text().splitlines() if (programs / "asked").exists() else []
    return done.returncode, asked, done.stderr


def test_a_cluster_is_made_the_image_loaded_the_chart_installed_and_a_pod_run(programs: Path) -> None:
    code, asked, _ = run(UP, programs)
    assert code == 0
    heads = [" ".join(line.split()[:3]) for line in asked]
    assert heads == [
        "kind get clusters",
        "kind create cluster",
        "docker build --tag",
        "kind load docker-image",
        "kubectl --context kind-gpu-dra",
        "helm --kube-context kind-gpu-dra",
        *["kubectl --context kind-gpu-dra"] * 5,
    ]
    assert "--values hack/kind/values.yaml" in asked[5]
    assert "--image" not in asked[1]


def test_a_cluster_that_is_there_is_kept(programs: Path) -> None:
    (programs / "clusters").write_text("other\ngpu-dra\n")
    code, asked, _ = run(UP, programs)
    assert code == 0
    assert not [line for line in asked if line.startswith("kind create")]


def test_another_node_image_is_taken(programs: Path) -> None:
    _, asked, _ = run(UP, programs, NODE_IMAGE="kindest/node:v1.36.1")
    assert "--image kindest/node:v1.36.1" in asked[1]


def test_what_fails_ends_it(programs: Path) -> None:
    (programs / "docker.fails").touch()
    code, asked, _ = run(UP, programs)
    assert code != 0
    assert asked[-1].startswith("docker build")


def test_a_missing_program_is_named_before_anything_is_done(programs: Path) -> None:
    code, asked, said = run(UP, programs, KIND="no-such-kind")
    assert (code, asked) == (1, [])
    assert "there is no no-such-kind in the PATH" in said


def test_down_removes_the_cluster(programs: Path) -> None:
    assert run(DOWN, programs)[:2] == (0, ["kind delete cluster --name gpu-dra"])


def test_every_file_that_the_script_names_is_there() -> None:
    words = [word for word in UP.read_text().split() if word.startswith(("deploy/", "hack/kind/")) and not word.endswith(")")]
    assert words
    assert [word for word in words if not (REPOSITORY / word).exists()] == []
