"""``docs/cli.md`` says what ``--help`` says."""

from __future__ import annotations

from pathlib import Path

from driver.cli.gpu.main import build_parser as build_gpu_parser
from driver.cli.main import build_parser
from driver.config.settings import declared
from hack.docs.cli import render_cli_page

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"


def test_the_page_is_the_one_that_follows_from_the_code() -> None:
    """Run ``make docs`` when this fails."""
    assert PAGE.read_text(encoding="utf-8") == render_cli_page()


def test_the_page_names_every_command_flag_variable_and_key() -> None:
    page = PAGE.read_text(encoding="utf-8")
    commands = {f"## gpu-dra {name}": parser for name, parser in build_parser()[1].choices.items()}
    commands |= {f"### kubectl gpu {name}": parser for name, parser in build_gpu_parser()[1].choices.items()}
    for heading, parser in commands.items():
        assert f"{heading}\n" in page
        for action in parser._actions:
            for flag in action.option_strings:
                assert flag in page or flag in {"-h", "--help"}, f"{heading}: {flag}"
    for each in declared():
        for named in (each.flag, *each.variables, f"`{each.key}`"):
            assert named in page, named


def test_every_exit_code_of_the_help_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for code in (0, 1, 2, 3, 130, 141):
        assert f"| {code} | " in page
        assert f"\n  {code:<4} " in (build_parser()[0].epilog or "")
