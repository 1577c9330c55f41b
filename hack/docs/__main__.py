"""Writes the generated pages: ``python -m hack.docs``."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from hack.docs.admission import render_config_policy
from hack.docs.attributes import render_attributes_page
from hack.docs.cli import render_cli_page
from hack.docs.dashboards import DASHBOARDS, render_dashboard
from hack.docs.health import render_health_page
from hack.docs.metrics import render_metrics_page
from hack.docs.rights import PAGE, render_security_page

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
PAGES: Mapping[Path, Callable[[], str]] = {
    DOCS / "attributes.md": render_attributes_page,
    DOCS / "cli.md": render_cli_page,
    DOCS / "health.md": render_health_page,
    DOCS / "metrics.md": render_metrics_page,
    PAGE: render_security_page,
    REPOSITORY / "deploy" / "admission" / "refuse-wrong-configs.yaml": render_config_policy,
    **{
        REPOSITORY / "deploy/dashboards" / f"{each.uid.removeprefix('gpu-dra-')}.json": functools.partial(
            render_dashboard, each
        )
        for each in DASHBOARDS
    },
}


def main() -> int:
    """Writes each page, and names it."""
    DOCS.mkdir(exist_ok=True)
    for page, render in PAGES.items():
        page.write_text(render(), encoding="utf-8")
        sys.stdout.write(f"wrote {page}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
