"""No file names a package registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.checks.hosts import REGISTRIES, find_hosts, main
from tests.unit.project.conftest import MakeTree


@pytest.mark.parametrize("host", REGISTRIES)
def test_registry_is_found_wherever_it_stands(host: str) -> None:
    text = f"first\n--option=https://user@{host.upper()}:443/simple\n"
    assert list(find_hosts(Path("docs/a.md"), text)) == [f"docs/a.md:2: names the registry {host.upper()}"]


@pytest.mark.parametrize("option", ["-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--trusted-host"])
def test_requirements_choose_no_registry(option: str) -> None:
    text = f"a==1 \\\n    --hash=sha256:00\n{option} somewhere.example\n"
    assert list(find_hosts(Path("requirements-dev.txt"), text)) == [f"requirements-dev.txt:3: chooses a registry: {option}"]


def test_options_of_other_files_are_their_own_affair() -> None:
    assert list(find_hosts(Path("docs/a.md"), "-f FILE  read a file\n")) == []


def test_other_hosts_may_be_named() -> None:
    """Image registries and homes of standards are no package registries."""
    assert list(find_hosts(Path("a"), "registry.k8s.io/pause, www.apache.org, kubernetes.io")) == []


def test_check_reads_every_file_also_binary_ones(make_tree: MakeTree, capsys: pytest.CaptureFixture[str]) -> None:
    tree = make_tree({"good.txt": "fine"})
    (tree / "bad.bin").write_bytes(b"\xff\xfe " + REGISTRIES[0].encode())
    assert main(tree) == 1
    assert capsys.readouterr().err.splitlines()[0] == f"bad.bin:1: names the registry {REGISTRIES[0]}"


def test_tree_without_registries_passes(make_tree: MakeTree) -> None:
    assert main(make_tree({"good.txt": "fine"})) == 0
