"""The documents name nothing that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.checks.docs import find_dead_targets, main, parse_anchors, parse_targets
from tests.unit.project.conftest import MakeTree

MAKEFILE = "help: ## List\n\t@true\n.PHONY: test\ntest: a b ## Test\ntest-unit:\n"


def test_targets_are_what_a_person_can_name() -> None:
    assert parse_targets(MAKEFILE) == {"help", "test", "test-unit"}


def test_anchors_follow_from_headings_outside_of_code() -> None:
    text = "# A claim's walk: from API\n\n```sh\n# no heading\n```\n## `make` and you\n"
    assert parse_anchors(text) == {"a-claims-walk-from-api", "make-and-you"}


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        pytest.param("Run `make test`.", [], id="there"),
        pytest.param("```sh\nmake demo\n```", ["demo"], id="in a block"),
        pytest.param("    $ make demo", ["demo"], id="after a prompt"),
        pytest.param("`make -j4 test`", [], id="with options"),
        pytest.param("We make sure of it.", [], id="a plain word"),
    ],
)
def test_make_targets_exist(text: str, dead: list[str]) -> None:
    lines = [f"a.md: says `make {name}`, which the Makefile lacks" for name in dead]
    assert list(find_dead_targets(Path("a.md"), text, parse_targets(MAKEFILE))) == lines


@pytest.mark.parametrize(
    ("link", "message"),
    [
        pytest.param("b.md", None, id="beside"),
        pytest.param("../README.md#start-here", None, id="a heading above"),
        pytest.param("#own-words", None, id="a heading of its own"),
        pytest.param("https://kubernetes.io/x", None, id="outside"),
        pytest.param("c.md", "docs/a.md: links to c.md, which does not exist", id="no such file"),
        pytest.param(
            "../README.md#nothing", "docs/a.md: links to ../README.md#nothing, but there is no such heading", id="no heading"
        ),
    ],
)
def test_links_lead_somewhere(make_tree: MakeTree, capsys: pytest.CaptureFixture[str], link: str, message: str | None) -> None:
    files = {"Makefile": MAKEFILE, "README.md": "# Start here\n", "docs/a.md": f"# Own words\n[x]({link})\n", "docs/b.md": ""}
    assert main(make_tree(files)) == (0 if message is None else 1)
    assert capsys.readouterr().err.splitlines() == ([] if message is None else [message])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param("driver/cli/x.py", "driver/cli/x.py: names docs/c.md, which does not exist", id="a help text"),
        pytest.param("docs/a.md", "docs/a.md: names docs/c.md, which does not exist", id="a page"),
        pytest.param("tests/x.py", None, id="a test"),
    ],
)
def test_pages_that_help_texts_name_exist(
    make_tree: MakeTree, capsys: pytest.CaptureFixture[str], path: str, message: str | None
) -> None:
    files = {"Makefile": MAKEFILE, "docs/b.md": "", path: '"""See docs/b.md, docs/c.md; not other/docs/d.md."""\n'}
    assert main(make_tree(files)) == (0 if message is None else 1)
    assert capsys.readouterr().err.splitlines() == ([] if message is None else [message])
