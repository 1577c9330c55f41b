"""Only packages whose licence was looked at are used."""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path

import pytest

from hack.checks.licences import find_unknown, list_licences, main, parse_pins, read_licences
from hack.checks.tree import REPOSITORY


def read_metadata(folder: Path, *fields: str) -> metadata.PackageMetadata:
    """The metadata of a made-up installed package."""
    folder.joinpath("METADATA").write_text("\n".join(["Metadata-Version: 2.4", "Name: made-up", "Version: 1", *fields]) + "\n")
    return metadata.PathDistribution(folder).metadata


@pytest.mark.parametrize(
    ("fields", "licences"),
    [
        pytest.param(["License-Expression: MIT"], ["MIT"], id="expression"),
        pytest.param(["License-Expression: Apache-2.0 AND MIT"], ["Apache-2.0", "MIT"], id="two at once"),
        pytest.param(["License-Expression: Apache-2.0 OR BSD-2-Clause"], ["Apache-2.0", "BSD-2-Clause"], id="a choice"),
        pytest.param(["License: PSF-2.0"], ["PSF-2.0"], id="old field"),
        pytest.param(
            ["License: whole text\n        over lines", "Classifier: License :: OSI Approved :: MIT License"],
            ["MIT License"],
            id="old field with the whole text",
        ),
        pytest.param(["Classifier: License :: OSI Approved :: BSD License"], ["BSD License"], id="classifier"),
        pytest.param(["Classifier: Topic :: Utilities"], [], id="none"),
    ],
)
def test_licence_is_read_from_the_best_field(tmp_path: Path, fields: list[str], licences: list[str]) -> None:
    assert list_licences(read_metadata(tmp_path, *fields)) == licences


def test_unknown_and_missing_licences_are_named() -> None:
    found = {"a": ["MIT"], "b": ["MIT", "GPL-3.0-only"], "c": []}
    assert list(find_unknown(found)) == ["b: GPL-3.0-only is not in the list of allowed licences", "c: names no licence"]


def test_pins_are_the_names_before_the_version() -> None:
    text = "a-b==1.0 \\\n    --hash=sha256:00\nc.d==2 ; sys_platform == 'win32' \\\n    --hash=sha256:11\n"
    assert parse_pins(text) == ["a-b", "c.d"]


def test_packages_of_other_platforms_are_not_asked() -> None:
    assert read_licences(["no-such-package-here"]) == {}


def test_what_we_use_is_allowed() -> None:
    assert main() == 0


def test_our_own_licence_is_the_text_of_apache_2_0() -> None:
    """Changed text would be another licence."""
    words = " ".join((REPOSITORY / "LICENSE").read_text().split())
    assert hashlib.sha256(words.encode()).hexdigest() == "0ffddef9e48f8a09aed5caf2d44f7ba1c1be2d9b8e0a6f693b1635b2d5566645"
