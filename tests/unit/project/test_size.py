"""Sizes past the first figure are named, past the second refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.checks.size import FILE, FUNCTION, Excess, find_excess, main
from tests.unit.project.conftest import MakeTree


def write_function(lines: int, *, docstring_lines: int = 0) -> str:
    """A function of so many lines, `def` included, docstring excluded."""
    docstring = ['    """Says it.', *["    More."] * (docstring_lines - 2), '    """'] if docstring_lines else []
    return "\n".join(["def act():", *docstring, *["    x = 1"] * (lines - 1)]) + "\n"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        pytest.param(40, [], id="as wanted"),
        pytest.param(41, ["a.py:1: act() has 41 lines, better 40"], id="named"),
        pytest.param(60, ["a.py:1: act() has 60 lines, better 40"], id="the most"),
        pytest.param(61, ["a.py:1: act() has 61 lines, at most 60"], id="refused"),
    ],
)
def test_function_is_measured_in_lines(lines: int, found: list[str]) -> None:
    assert [str(excess) for excess in find_excess(Path("a.py"), write_function(lines))] == found


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        pytest.param(300, [], id="as wanted"),
        pytest.param(301, ["a.sh: the file has 301 lines, better 300"], id="named"),
        pytest.param(400, ["a.sh: the file has 400 lines, better 300"], id="the most"),
        pytest.param(401, ["a.sh: the file has 401 lines, at most 400"], id="refused"),
    ],
)
def test_file_is_measured_in_lines(lines: int, found: list[str]) -> None:
    assert [str(excess) for excess in find_excess(Path("a.sh"), "true\n" * lines)] == found


def test_docstring_does_not_count() -> None:
    """Else a rule would cost the words that explain it."""
    assert list(find_excess(Path("a.py"), write_function(40, docstring_lines=30))) == []


def test_methods_and_inner_functions_are_measured_too() -> None:
    text = "class A:\n    async def act(self):\n" + "        x = 1\n" * 41
    assert [str(excess) for excess in find_excess(Path("a.py"), text)] == ["a.py:2: act() has 42 lines, better 40"]


def test_large_but_allowed_passes_and_is_named(make_tree: MakeTree, capsys: pytest.CaptureFixture[str]) -> None:
    tree = make_tree({"a.py": write_function(FUNCTION.wanted + 1)})
    assert main(tree) == 0
    assert capsys.readouterr().err == "a.py:1: act() has 41 lines, better 40\n"


def test_too_large_fails_and_comes_last(make_tree: MakeTree, capsys: pytest.CaptureFixture[str]) -> None:
    """The end of the output is what people see."""
    tree = make_tree({"a.py": write_function(FUNCTION.most + 1), "b.py": write_function(FUNCTION.wanted + 1)})
    assert main(tree) == 1
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == ["b.py", "a.py"]


def test_stubs_and_other_kinds_of_files_are_not_measured(make_tree: MakeTree) -> None:
    long = "x = 1\n" * (FILE.most + 1)
    assert main(make_tree({"driver/pb/a_pb2.py": long, "requirements.txt": long})) == 0


def test_excess_is_refused_only_past_the_hard_limit() -> None:
    refused = [Excess(place="a", what="b", lines=lines, limit=FILE).is_refused for lines in (301, 400, 401)]
    assert refused == [False, False, True]
