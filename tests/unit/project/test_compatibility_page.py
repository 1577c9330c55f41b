"""Every row of docs/compatibility.md names a test that is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "compatibility.md").read_text()
NAMED = sorted(set(re.findall(r"`((?:unit|component|contract|e2e)/[\w/]+\.py)(?:::(\w+))?`", PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[f"{file}-{name}" for file, name in NAMED])
def test_the_test_of_a_row_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / "tests" / file).read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert not name or name in functions


def test_every_row_of_the_table_names_one() -> None:
    rows = [line for line in PAGE.split("## What differs")[0].splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 20
    assert [row for row in rows if not re.search(r"`(?:unit|component|contract|e2e)/", row)] == []
