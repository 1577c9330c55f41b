"""Which files the checks look at."""

from __future__ import annotations

import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
GENERATED = Path("driver/pb")


def list_files(repository: Path) -> list[Path]:
    """The files that git has or would take and that are there, sorted, relative to the repository."""
    command = ["git", "-C", str(repository), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    paths = {Path(name) for name in names.split("\0") if name}
    return sorted(path for path in paths if (repository / path).is_file())


def is_generated(path: Path) -> bool:
    """Whether a tool wrote the file, so that our rules of writing say nothing of it."""
    return path.is_relative_to(GENERATED)
