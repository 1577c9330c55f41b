"""The texts that this project says, as the code has them: to compare with those that a page quotes.

A field of an f-string or of a CEL concatenation is an ellipsis, in the code's text and in the page's.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_OURS = re.compile(r"`([^`]+)`")
_ROW = re.compile(r"^\| (.+?) \|", re.MULTILINE)
_OTHERS = re.compile(r"\((kubelet|kube-scheduler|kube-controller-manager|API server)\)")
BINARIES = {
    "kubelet": "kubelet",
    "kube-scheduler": "kube-scheduler",
    "kube-controller-manager": "kube-controller-manager",
    "API server": "kube-apiserver",
}


def read_quotes(page: str) -> Iterator[tuple[str, str]]:
    """Each text that the first column of a table quotes, and the binary that says it; empty for ourselves."""
    for cell in _ROW.findall(page.replace("\\|", "\0")):
        owner = _OTHERS.search(cell)
        for text in _OURS.findall(cell.replace("\0", "|")):
            yield text, BINARIES[owner[1]] if owner else ""


@cache
def read_texts(repository: Path) -> frozenset[str]:
    """All literal texts of the program, and of the admission policies."""
    texts: set[str] = set()
    for path in (repository / "driver").rglob("*.py"):
        texts.update(_render(node) for node in ast.walk(ast.parse(path.read_text())))
    policies = [
        *(repository / "deploy" / "admission").glob("*.yaml"),
        *(repository / "deploy/helm/gpu-dra/templates").glob("*.yaml"),
    ]
    texts.update(" ".join(re.sub(r"' \+ [^'\"]+(?: \+ '|\")", "…", path.read_text()).split()) for path in policies)
    return frozenset(texts - {""})


def _render(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return " ".join(node.value.split())
    if isinstance(node, ast.JoinedStr):
        parts = [str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values]
        return " ".join("".join(parts).split())
    return ""


def is_said(text: str, texts: frozenset[str]) -> bool:
    """Whether the program can say it: a word is a whole text of the code, several are a part of one."""
    return text in texts if " " not in text else any(text in each for each in texts)


def find_pattern(text: str) -> re.Pattern[bytes]:
    """What a Go binary has of a text that was formatted: its verbs, where the page has an ellipsis."""
    return re.compile(rb"%[a-z]".join(re.escape(part.encode()) for part in text.split("…")))
