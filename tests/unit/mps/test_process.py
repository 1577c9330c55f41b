"""Which process it is: the number alone says nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.mps.process import Identity, is_alive, parse_stat, read_identity

LINE = "4711 (nvidia (mps) x) S 1 4711 4711 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 123456 1000 200"


def test_a_name_with_brackets_and_blanks_is_no_trap() -> None:
    assert parse_stat(LINE) == (Identity(pid=4711, start_ticks=123456), "S")


@pytest.mark.parametrize(
    "text", ["", "4711", "4711 (x) S 1", "x (y) " + "1 " * 30], ids=["empty", "number", "short", "no number"]
)
def test_what_is_no_such_line_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"stat|invalid literal"):
        parse_stat(text)


@settings(max_examples=50)
@given(st.text(max_size=80))
def test_any_text_is_a_line_or_refused(text: str) -> None:
    try:
        parse_stat(text)
    except ValueError:
        return


def test_this_process_is_alive_and_one_of_another_start_is_not() -> None:
    me, _ = parse_stat(Path("/proc/self/stat").read_text())
    assert me.pid == os.getpid()
    assert is_alive(me)
    assert not is_alive(Identity(pid=me.pid, start_ticks=me.start_ticks + 1))


def test_no_file_is_no_process(tmp_path: Path) -> None:
    assert read_identity(tmp_path / "process") is None
    (tmp_path / "process").write_bytes(b"\xff\xfe")
    assert read_identity(tmp_path / "process") is None
    (tmp_path / "process").write_text(LINE)
    assert read_identity(tmp_path / "process") == Identity(pid=4711, start_ticks=123456)
