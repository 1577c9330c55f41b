"""The parser's own habits."""

from __future__ import annotations

import pytest

from driver.cli.parser import Parser


@pytest.fixture
def parser() -> Parser:
    parser = Parser(prog="gpu-dra x")
    parser.add_argument("--node-name")
    parser.add_argument("--nvml")
    return parser


@pytest.mark.parametrize(
    ("word", "flag"),
    [("--nodename", "--node-name"), ("--node-nam=a", "--node-name"), ("--nvlm", "--nvml"), ("--zzz", None), ("x", None)],
)
def test_the_nearest_flag_is_named_when_one_is_near(parser: Parser, word: str, flag: str | None) -> None:
    assert parser.nearest_flag(word) == flag


def test_a_flag_may_not_be_cut_short(parser: Parser) -> None:
    """What is unambiguous today would change its meaning with the next flag."""
    assert parser.parse_known_args(["--node", "a"])[1] == ["--node", "a"]


def test_an_error_is_one_line_with_code_2(parser: Parser, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser.error("no")
    assert ended.value.code == 2
    assert capsys.readouterr().err == "gpu-dra x: error: no; `gpu-dra x --help` says what is right\n"


@pytest.mark.parametrize(("word", "hint"), [("tabel", "; did you mean table?"), ("zzz", ";")])
def test_the_nearest_choice_is_named_when_one_is_near(
    parser: Parser, capsys: pytest.CaptureFixture[str], word: str, hint: str
) -> None:
    parser.add_argument("--output", choices=("table", "json"))
    with pytest.raises(SystemExit):
        parser.parse_args(["--output", word])
    assert f"){hint} `gpu-dra x --help` says what is right" in capsys.readouterr().err
