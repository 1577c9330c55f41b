"""What is pinned is what `pyproject.toml` asks for, with a hash for every file."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hack.checks.tree import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
RUNTIME: list[str] = PROJECT["project"]["dependencies"]
TOOLS: list[str] = PROJECT["dependency-groups"]["dev"]
FILES = ["requirements.txt", "requirements-dev.txt"]


def read_blocks(file: str) -> list[str]:
    """The entries of a requirements file, each with its hashes."""
    text = (REPOSITORY / file).read_text()
    return [block for block in re.split(r"\n(?=\S)", text.strip()) if not block.startswith("#")]


def read_pins(file: str) -> dict[str, str]:
    """Package name to its pinned version."""
    pins = (block.split(maxsplit=1)[0].partition("==") for block in read_blocks(file))
    return {canonicalize_name(name): version for name, _, version in pins}


@pytest.mark.parametrize(
    ("file", "wanted"), [("requirements.txt", RUNTIME), ("requirements-dev.txt", [*RUNTIME, *TOOLS])], ids=FILES
)
def test_every_requirement_is_pinned_within_its_bounds(file: str, wanted: list[str]) -> None:
    pins = read_pins(file)
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement


def test_the_tools_are_tested_with_what_the_program_runs_with() -> None:
    assert read_pins("requirements.txt").items() <= read_pins("requirements-dev.txt").items()


@pytest.mark.parametrize("file", FILES)
def test_every_pin_has_a_hash(file: str) -> None:
    """One without would have pip refuse the whole file."""
    blocks = read_blocks(file)
    assert [block.split()[0] for block in blocks if not re.search(r"--hash=sha256:[0-9a-f]{64}", block)] == []
    assert len(blocks) > len(RUNTIME)


def test_what_is_installed_here_is_what_is_pinned() -> None:
    """A test that passes with another version says nothing of the pinned one."""
    pins = read_pins("requirements-dev.txt")
    installed: dict[str, str] = {canonicalize_name(package.name): package.version for package in metadata.distributions()}
    assert {name: installed[name] for name in pins.keys() & installed.keys()} == {
        name: pins[name] for name in pins.keys() & installed.keys()
    }
