"""The fenced blocks of a page, and what their first line says of how they are checked.

    ```sh                 only linted: it parses, and what it names exists
    ```sh local           run by a test, in the repository, with no cluster
    ```sh e2e=STAGE       run by a scenario on the dev cluster, in the order of the page; the stage is what it begins with
    ```text shown         what the block before prints: each line somewhere in it, in this order; an ellipsis is anything
    ```yaml               a manifest, or a part of one

A renderer looks at the first word alone.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

LOCAL = "local"
SHOWN = "shown"
_STAGE = re.compile(r"e2e=([a-z][a-z-]*)")
_BLOCK = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```\s*$", re.MULTILINE | re.DOTALL)
LANGUAGES = frozenset({"sh", "yaml", "text", "json", "python", "promql"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block. ``line`` is that of its fence, from 1."""

    language: str
    tags: tuple[str, ...]
    text: str
    line: int

    @property
    def stage(self) -> str:
        """The stage of the dev cluster that it runs on; empty for none."""
        found = [match[1] for tag in self.tags if (match := _STAGE.fullmatch(tag))]
        return found[0] if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Commands to run, and what they have to print (empty: anything)."""

    block: Block
    shown: str


def parse_blocks(page: str) -> tuple[Block, ...]:
    """All fenced blocks of a page, in its order."""
    blocks = []
    for match in _BLOCK.finditer(page):
        words = match[2].split()
        text = re.sub(rf"^{match[1]}", "", match[3], flags=re.MULTILINE)
        line = page.count("\n", 0, match.start()) + 1
        blocks.append(Block(language=words[0] if words else "", tags=tuple(words[1:]), text=text, line=line))
    return tuple(blocks)


def choose_steps(page: str, tag: str) -> tuple[Step, ...]:
    """The blocks of a page that have this tag, each with what it has to print."""
    blocks = parse_blocks(page)
    return tuple(
        Step(block=block, shown=after.text if after is not None and SHOWN in after.tags else "")
        for block, after in itertools.zip_longest(blocks, blocks[1:])
        if block.language == "sh" and tag in block.tags
    )


def find_faults(page: str) -> tuple[str, ...]:
    """What is wrong with the fences themselves, a line each: ``LINE: what``."""
    faults = []
    blocks = parse_blocks(page)
    for before, block in zip((None, *blocks), blocks, strict=False):
        if block.language not in LANGUAGES:
            faults.append(
                f"{block.line}: a block of {block.language or 'no language'}; there are {', '.join(sorted(LANGUAGES))}"
            )
        known = {"sh": {LOCAL}, "text": {SHOWN}}.get(block.language, set())
        faults += [
            f"{block.line}: a block of {block.language} has no tag {tag}"
            for tag in block.tags
            if tag not in known and not (block.language == "sh" and _STAGE.fullmatch(tag))
        ]
        if SHOWN in block.tags and (before is None or not (LOCAL in before.tags or before.stage)):
            faults.append(f"{block.line}: it is shown by the block before, which nothing runs")
    return tuple(faults)


def find_missing(shown: str, printed: str) -> str | None:
    """The first line of ``shown`` that does not come in ``printed`` after those before it; None when all do."""
    place = 0
    flat = " ".join(printed.split())
    for line in shown.splitlines():
        parts = [re.escape(" ".join(part.split())) for part in line.split("…")]
        if not "".join(parts):
            continue
        match = re.compile(" ?.*? ?".join(parts)).search(flat, place)
        if match is None:
            return line
        place = match.end()
    return None
