"""No file of the tree names a package registry: which one is used is for the machine's own settings to say.

python -m hack.checks.hosts
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from hack.checks.tree import REPOSITORY, list_files

# Written in parts, so that this file keeps its own rule.
REGISTRIES = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
        ("sum", "golang", "org"),
        ("goproxy", "io"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("repo1", "maven", "org"),
        ("repo", "maven", "apache", "org"),
        ("deb", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("rubygems", "org"),
        ("conda", "anaconda", "org"),
    )
)
_HOST = re.compile("|".join(re.escape(host) for host in REGISTRIES), re.IGNORECASE)
_INDEX_OPTION = re.compile(r"^\s*(?:-i|--index-url|--extra-index-url|-f|--find-links|--trusted-host)\b", re.MULTILINE)


def find_hosts(path: Path, text: str) -> Iterator[str]:
    """One line for each registry that the text names, and for each option of a requirements file that names one."""
    for number, line in enumerate(text.splitlines(), start=1):
        for match in _HOST.finditer(line):
            yield f"{path}:{number}: names the registry {match.group()}"
        if path.name.startswith("requirements") and _INDEX_OPTION.match(line):
            yield f"{path}:{number}: chooses a registry: {line.strip().split()[0]}"


def main(repository: Path = REPOSITORY) -> int:
    """Prints what names a registry; returns an exit status."""
    found = [
        line
        for path in list_files(repository)
        for line in find_hosts(path, (repository / path).read_bytes().decode(errors="replace"))
    ]
    for line in found:
        print(line, file=sys.stderr)
    if found:
        print("Leave the registry to the settings of the machine (pip.conf, GOPROXY, and their like).", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
