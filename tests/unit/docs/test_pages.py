"""Every shell block of every page is a script that a shell reads, and every manifest in one is legal."""

from __future__ import annotations

import shutil
import subprocess

import kubernetes_validate
import pytest
import yaml

from hack.checks.snippets import Block, parse_blocks
from hack.checks.tree import REPOSITORY, list_files

PAGES = [path for path in list_files(REPOSITORY) if path.suffix == ".md"]
BLOCKS = [(path, block) for path in PAGES for block in parse_blocks((REPOSITORY / path).read_text())]
SCRIPTS = {f"{path}:{block.line}": block for path, block in BLOCKS if block.language == "sh"}
MANIFESTS = {f"{path}:{block.line}": block for path, block in BLOCKS if block.language == "yaml"}
UNFIT = "SC2148,SC2154,SC1091"
"""What is no fault of a page: no first line, a variable that a block before has set, a file that is made later."""


@pytest.mark.parametrize("block", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_a_shell_reads_it(block: Block) -> None:
    checker = shutil.which("shellcheck")
    command = ["bash", "-n"] if checker is None else [checker, "--shell=bash", f"--exclude={UNFIT}", "--severity=warning", "-"]
    done = subprocess.run(command, input=block.text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("block", MANIFESTS.values(), ids=MANIFESTS.keys())
def test_a_manifest_is_legal(block: Block) -> None:
    """A part of one has at least to be YAML."""
    for document in yaml.safe_load_all(block.text):
        if isinstance(document, dict) and str(document.get("apiVersion", "")).endswith(".k8s.io/v1") and "kind" in document:
            kubernetes_validate.validate(document, "1.37", strict=True)
