"""The form of our command line: argparse, stricter and with better hints."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable
from typing import NoReturn, TypeAlias

_INVALID_INT = re.compile(r"invalid int value: ('.{0,80}')")
_INVALID_CHOICE = re.compile(r"invalid choice: '([^']{1,80})' \(choose from (.*)\)")


class Parser(argparse.ArgumentParser):
    """argparse without abbreviations, which names the nearest flag, command or choice when one is misspelt."""

    def __init__(self, **keywords: object) -> None:
        keywords.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **keywords)  # type: ignore[arg-type]  # whatever argparse passes to subparsers

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where to look; exit code 2."""
        said = _INVALID_INT.sub(r"\1 is no whole number", message) + _nearest_choice(message) + self._list_commands(message)
        end = "" if said.endswith("?") else ";"
        self.exit(2, f"{self.prog}: error: {said}{end} `{self.prog} --help` says what is right\n")

    def _list_commands(self, message: str) -> str:
        """Whoever names no command wants to know which there are."""
        if not message.endswith("required: COMMAND"):
            return ""
        names = [name for action in self._actions if action.dest == "command" for name in action.choices or ()]
        return f", one of {', '.join(names)}"

    def has_flag(self, word: str) -> bool:
        """Whether ``word`` is a flag of this command, with or without a value behind it."""
        return any(word.partition("=")[0] in action.option_strings for action in self._actions)

    def nearest_flag(self, word: str) -> str | None:
        """The flag that looks most like ``word``."""
        flags = [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]
        near = difflib.get_close_matches(word.partition("=")[0], flags, n=1)
        return near[0] if near else None


def _nearest_choice(message: str) -> str:
    wrong = _INVALID_CHOICE.search(message)
    near = difflib.get_close_matches(wrong[1], re.findall(r"[\w-]+", wrong[2]), n=1) if wrong else []
    return f"; did you mean {near[0]}?" if near else ""


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""What a command's ``add_parser`` is given: ``commands.add_parser("inspect", help=..., description=..., epilog=...)``."""


def checked(parse: Callable[[str], str]) -> Callable[[str], str]:
    """The check of a setting as the ``type`` of an argument: its own words, and exit code 2 before anything is done."""

    def convert(text: str) -> str:
        try:
            return parse(text)
        except ValueError as err:
            raise argparse.ArgumentTypeError(str(err)) from err

    return convert
