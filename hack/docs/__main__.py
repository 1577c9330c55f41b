"""Writes the generated pages: ``python -m hack.docs``."""

from __future__ import annotations

import sys
from pathlib import Path

from hack.docs.attributes import render_attributes_page
from hack.docs.cli import render_cli_page

DOCS = Path(__file__).parents[2] / "docs"


def main() -> int:
    """Writes each page, and names it."""
    DOCS.mkdir(exist_ok=True)
    for name, render in (("attributes.md", render_attributes_page), ("cli.md", render_cli_page)):
        page = DOCS / name
        page.write_text(render(), encoding="utf-8")
        sys.stdout.write(f"wrote {page}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
