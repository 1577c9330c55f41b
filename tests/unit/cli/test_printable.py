"""What others have written moves no cursor, and breaks no picture."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from driver.cli.gpu.svg import build_document, group, text
from driver.cli.printable import encode_printable
from driver.cli.tables import open_console
from driver.cli.view import encode_json

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31mH200\u202eexe\x00"


class Terminal(io.StringIO):
    """Somebody reads it."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        pytest.param("NVIDIA H200 … GPUs 0-3 ░", "NVIDIA H200 … GPUs 0-3 ░", id="plain"),
        pytest.param("a\nb\tc\u00a0d\re", "a\nb c d e", id="spaces"),
        pytest.param("\x1b[31mred\x1b[0m", "�[31mred�[0m", id="colour"),
        pytest.param(HOSTILE, "�]0;owned��[2J�31mH200�exe�", id="hostile"),
    ],
)
def test_what_is_not_shown_is_replaced(said: str, shown: str) -> None:
    assert encode_printable(said) == shown


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_table_hands_on_no_escapes(stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to a person's terminal nor to a file, from a cell, a line or a heading."""
    monkeypatch.setenv("NO_COLOR", "1")
    out = stream()
    console = open_console(out)
    table = Table(title=Text(HOSTILE))
    table.add_column(HOSTILE, no_wrap=True)
    table.add_row(HOSTILE)
    console.print(table)
    console.print(Text(HOSTILE, style="yellow"))
    said = out.getvalue()
    assert "H200" in said
    assert not any(char in said for char in ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\u202e", "\x00"))


@given(st.text(max_size=40))
@settings(max_examples=50, deadline=None)
def test_a_picture_is_well_formed_whatever_the_names_are(words: str) -> None:
    parts = [group([text((0, 0), words)], words)]
    root = ET.fromstring(build_document(parts, 10, 10, words))
    assert {each.tag.rpartition("}")[2] for each in root.iter()} == {"svg", "title", "defs", "pattern", "rect", "g", "text"}


def test_markup_in_a_name_stays_a_name() -> None:
    root = ET.fromstring(build_document([text((0, 0), "</text><script>alert(1)</script>")], 10, 10, "x"))
    assert not [each for each in root.iter() if "script" in each.tag]


@pytest.mark.parametrize(
    ("said", "written"),
    [
        pytest.param("NVIDIA H100 …", "NVIDIA H100 …", id="plain"),
        pytest.param("\x9b31m", "\\u009b31m", id="a control beyond ASCII"),
        pytest.param("a\u202eb\u2066c", "a\\u202eb\\u2066c", id="marks of direction"),
        pytest.param("\U000e0041", "\\udb40\\udc41", id="a tag beyond 16 bits"),
        pytest.param("\x1b\x7f", "\\u001b\\u007f", id="a control of ASCII"),
    ],
)
def test_json_says_the_same_and_moves_no_cursor(said: str, written: str) -> None:
    document = encode_json({"a": said})
    assert document == '{\n  "a": "' + written + '"\n}'
    assert json.loads(document) == {"a": said}


@given(st.text(max_size=40))
@settings(max_examples=50, deadline=None)
def test_json_of_any_text_is_the_text(words: str) -> None:
    document = encode_json([words])
    assert json.loads(document) == [words]
    assert document.replace("\n", "").isprintable()
