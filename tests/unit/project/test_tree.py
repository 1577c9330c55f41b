"""The checks look at what is, or would be, committed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hack.checks.tree import is_generated, list_files
from tests.unit.project.conftest import MakeTree


def test_new_files_count_and_ignored_ones_do_not(make_tree: MakeTree) -> None:
    tree = make_tree({".gitignore": "*.log\n", "b.py": "", "a/new file.py": "", "run.log": ""})
    assert list_files(tree) == [Path(".gitignore"), Path("a/new file.py"), Path("b.py")]


def test_a_file_that_was_just_deleted_does_not_count(make_tree: MakeTree) -> None:
    tree = make_tree({"a.py": "", "b.py": ""})
    subprocess.run(["git", "-C", str(tree), "add", "a.py", "b.py"], check=True)
    (tree / "a.py").unlink()
    assert list_files(tree) == [Path("b.py")]


@pytest.mark.parametrize(
    ("path", "generated"),
    [("driver/pb/dra/v1/api_pb2.py", True), ("driver/plugin/dra.py", False), ("driver/pb.py", False)],
)
def test_only_the_stubs_are_generated(path: str, generated: bool) -> None:
    assert is_generated(Path(path)) is generated
