"""What the program runs with may be given on under Apache-2.0, and the tools may be used to build it.

Looks at the packages that the two requirements files pin and that are installed here. A licence that is not in the lists
below is a question for people, not for a pattern: read it, then add it, or do without the package.

    python -m hack.checks.licences
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

from hack.checks.tree import REPOSITORY

ALLOWED = frozenset(
    {
        *("Apache", "Apache-2.0", "Apache 2.0", "Apache License 2.0", "Apache Software License"),
        *("BSD", "BSD License", "BSD-2-Clause", "BSD-3-Clause", "BSD 2-Clause License", "3-Clause BSD License"),
        *("MIT", "MIT License", "ISC"),
        *("PSF-2.0", "Python Software Foundation License"),
        # Weak copyleft, by file: used as they are, none of their files is in our tree.
        *("MPL-2.0", "Mozilla Public License 2.0 (MPL 2.0)"),
    }
)
READ: Mapping[str, list[str]] = {
    "promql-parser": ["MIT"],  # its LICENSE file says so, its metadata nothing
}
"""Packages that name none, and whose text somebody has read."""
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==", re.MULTILINE)
_CLASSIFIER = "License :: OSI Approved :: "


def parse_pins(requirements: str) -> list[str]:
    """The names of the packages that a requirements file pins."""
    return _PIN.findall(requirements)


def list_licences(package: metadata.PackageMetadata) -> list[str]:
    """The licences that a package names, by the best field that it has; alternatives (OR) are listed together."""
    if "License-Expression" in package:
        return re.split(r"\s+(?:AND|OR)\s+", package["License-Expression"].strip("()"))
    if "License" in package and "\n" not in package["License"]:
        return [package["License"]]
    classifiers: Iterable[str] = package.get_all("Classifier") or ()
    return [entry.removeprefix(_CLASSIFIER) for entry in classifiers if entry.startswith(_CLASSIFIER)]


def find_unknown(licences: Mapping[str, list[str]]) -> Iterator[str]:
    """One line for each package whose licence is missing or not in our list."""
    for name, found in licences.items():
        if not found:
            yield f"{name}: names no licence"
        unknown = [licence for licence in found if licence not in ALLOWED]
        if unknown:
            yield f"{name}: {', '.join(unknown)} is not in the list of allowed licences"


def read_licences(names: Iterable[str]) -> dict[str, list[str]]:
    """The licences of the installed packages; those for other platforms are not here and not asked."""
    found = {}
    for name in names:
        try:
            found[name] = list_licences(metadata.metadata(name)) or READ.get(name, [])
        except metadata.PackageNotFoundError:
            continue
    return found


def main(repository: Path = REPOSITORY) -> int:
    """Prints what may not be used; returns an exit status."""
    pins = parse_pins((repository / "requirements-dev.txt").read_text())
    unknown = list(find_unknown(read_licences(pins)))
    for line in unknown:
        print(line, file=sys.stderr)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
