"""The form of our command line: argparse, stricter and with better hints."""

from __future__ import annotations

import argparse
import difflib
from typing import NoReturn, TypeAlias


class Parser(argparse.ArgumentParser):
    """argparse without abbreviations, which names the nearest flag when one is misspelt."""

    def __init__(self, **keywords: object) -> None:
        keywords.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **keywords)  # type: ignore[arg-type]  # whatever argparse passes to subparsers

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where to look; exit code 2."""
        self.exit(2, f"{self.prog}: error: {message}; `{self.prog} --help` says what is right\n")

    def nearest_flag(self, word: str) -> str | None:
        """The flag that looks most like ``word``."""
        flags = [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]
        near = difflib.get_close_matches(word.partition("=")[0], flags, n=1)
        return near[0] if near else None


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""What a command's ``add_parser`` is given: ``commands.add_parser("inspect", help=..., description=..., epilog=...)``."""
