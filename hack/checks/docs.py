"""The documents, and the program's help and messages, name nothing that is not there.

Files, headings, pages, make targets; in commands flags, values of the chart, manifests.

python -m hack.checks.docs
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from hack.checks.commands import find_wrong, split_commands
from hack.checks.snippets import find_faults, parse_blocks
from hack.checks.tree import REPOSITORY, list_files

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*$", re.MULTILINE)
_MAKE = re.compile(r"(?:^\s*\$?\s*|`)make ([a-z][a-z0-9-]*)", re.MULTILINE)
_PAGE = re.compile(r"(?<![\w./-])docs/[\w-]+\.md")
_TARGET = re.compile(r"^([a-z][a-z0-9-]*):", re.MULTILINE)


def parse_targets(makefile: str) -> frozenset[str]:
    """The targets that a person can name."""
    return frozenset(_TARGET.findall(makefile))


def parse_anchors(text: str) -> frozenset[str]:
    """The headings of a Markdown text, as links name them."""
    headings = _HEADING.findall(_FENCE.sub("", text))
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def find_dead_links(repository: Path, path: Path, text: str) -> Iterator[str]:
    """One line for each link into the tree that leads nowhere."""
    for target in _LINK.findall(_FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (repository / path.parent / name) if name else repository / path
        if not linked.exists():
            yield f"{path}: links to {target}, which does not exist"
        elif anchor and linked.suffix == ".md" and anchor not in parse_anchors(linked.read_text()):
            yield f"{path}: links to {target}, but there is no such heading"


def find_dead_targets(path: Path, text: str, targets: frozenset[str]) -> Iterator[str]:
    """One line for each make target that the Makefile lacks."""
    for name in _MAKE.findall(text):
        if name not in targets:
            yield f"{path}: says `make {name}`, which the Makefile lacks"


def find_dead_pages(repository: Path, path: Path, text: str) -> Iterator[str]:
    """One line for each page of ``docs/`` that a text names and that is not there."""
    for name in sorted(set(_PAGE.findall(text))):
        if not (repository / name).exists():
            yield f"{path}: names {name}, which does not exist"


def find_dead_commands(repository: Path, path: Path, text: str) -> Iterator[str]:
    """One line for each fence, and for each command in a block, that cannot be right."""
    yield from (f"{path}:{fault}" for fault in find_faults(text))
    for block in parse_blocks(text):
        for words in split_commands(block.text) if block.language == "sh" else ():
            yield from (f"{path}:{block.line}: {' '.join(words[:4])}: {wrong}" for wrong in find_wrong(words, repository))


def main(repository: Path = REPOSITORY) -> int:
    """Prints what the documents name wrongly; returns an exit status."""
    targets = parse_targets((repository / "Makefile").read_text())
    found: list[str] = []
    for path in list_files(repository):
        if path.suffix == ".md":
            text = (repository / path).read_text()
            found += [*find_dead_links(repository, path, text), *find_dead_targets(path, text, targets)]
            found += find_dead_commands(repository, path, text)
        if path.suffix == ".md" or (path.suffix == ".py" and path.parts[0] == "driver"):
            found += find_dead_pages(repository, path, (repository / path).read_text())
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
