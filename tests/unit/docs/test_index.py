"""The index names every page, and the README stays one screen."""

from __future__ import annotations

from hack.checks.tree import REPOSITORY

DOCS = REPOSITORY / "docs"


def test_the_index_names_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    assert [path.name for path in sorted(DOCS.glob("*.md")) if f"({path.name})" not in index and path.name != "README.md"] == []


def test_the_readme_is_one_screen() -> None:
    assert len((REPOSITORY / "README.md").read_text().splitlines()) <= 50


def test_every_example_is_on_the_page_of_examples() -> None:
    page = (DOCS / "examples.md").read_text()
    folder = REPOSITORY / "deploy" / "examples"
    names = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.yaml"))]
    assert [name for name in names if name not in page and not name.startswith("mig/mig-")] == []


def test_the_map_has_every_package() -> None:
    page = (REPOSITORY / "ARCHITECTURE.md").read_text()
    packages = {path.name for path in (REPOSITORY / "driver").iterdir() if (path / "__init__.py").exists() or path.name == "pb"}
    table = page.split("| package | does |")[1].split("**Decide")[0]
    picture = page.split("```text")[1].split("```")[0]
    assert sorted(name for name in packages if f"`{name}`" not in table) == []
    assert sorted(name for name in packages if f" {name} " not in picture.replace("\n", " \n")) == []
