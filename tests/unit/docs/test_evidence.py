"""What a page names as showing a claim is there: files of tests, and scenarios that ``--only`` chooses."""

from __future__ import annotations

import re

import pytest

from hack.checks.snippets import parse_blocks
from hack.checks.tree import REPOSITORY, list_files
from tests.e2e.scenarios import ALL

PAGES = {
    path: (REPOSITORY / path).read_text()
    for path in list_files(REPOSITORY)
    if path.suffix == ".md" and "reports" not in path.parts
}
FILES = sorted(
    {
        (str(page), name)
        for page, text in PAGES.items()
        for name in re.findall(r"`((?:tests/|e2e/|unit/|component/|contract/)[\w./-]+\.py)", text)
    }
)
CHOICES = sorted(
    {
        (str(page), quoted or word)
        for page, text in PAGES.items()
        for quoted, word in re.findall(r"--only (?:\"([^\"]+)\"|([a-z:-]+))", text)
        if page.parts[0] == "docs"
    }
)


@pytest.mark.parametrize(("page", "name"), FILES, ids=[f"{page}-{name}" for page, name in FILES])
def test_a_file_of_tests_exists(page: str, name: str) -> None:
    path = REPOSITORY / (name if name.startswith("tests/") else f"tests/{name}")
    assert path.exists(), f"{page} names {name}"


@pytest.mark.parametrize(("page", "text"), CHOICES, ids=[f"{page}-{text}" for page, text in CHOICES])
def test_a_scenario_has_this_in_its_name(page: str, text: str) -> None:
    assert [each.name for each in ALL if text in each.name], f"{page} says --only {text}"


def test_scenarios_that_pages_quote_by_name_exist() -> None:
    """``e2e/scenarios/x.py``, "its name"."""
    names = " ".join(each.name for each in ALL)
    quoted = [name for text in PAGES.values() for name in re.findall(r"scenarios/\w+\.py`,\s+\"([^\"]+)\"", text)]
    assert quoted
    assert [name for name in quoted if " ".join(name.split()) not in names] == []


def test_every_stage_of_a_page_is_begun_by_a_scenario() -> None:
    """Commands that say they run on the dev cluster do."""
    scenarios = (REPOSITORY / "tests" / "e2e" / "scenarios" / "guides.py").read_text()
    stages = {(page.stem, block.stage) for page, text in PAGES.items() for block in parse_blocks(text) if block.stage}
    assert stages
    for page, stage in sorted(stages):
        assert f'"{stage}"' in scenarios, f"{page} has e2e={stage}, and no scenario begins it"
        assert f"{page}.md" in scenarios or f'("{page}", "{stage}")' in scenarios, f"no scenario follows {page}"
