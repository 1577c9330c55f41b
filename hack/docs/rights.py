"""The table of rights on ``docs/security.md``, from the chart's templates: each rule, and the comment before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

_REPOSITORY = Path(__file__).parents[2]
PAGE = _REPOSITORY / "docs" / "security.md"
_TEMPLATES = _REPOSITORY / "deploy" / "helm" / "gpu-dra" / "templates"
_ACCOUNTS = {"kubelet-plugin": "the plugin", "controller": "the controller"}
_BEGIN = "<!-- rights: made by `python -m hack.docs` from the chart's templates -->\n"
_END = "<!-- end of rights -->"
_NAME = re.compile(r"\{\{-? *(?:include \"gpu-dra\.\w+\" \.|\$name) *\}\}")


def render_security_page() -> str:
    """The page as it is, with the table of the chart as it is."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}{render_rights()}{_END}{after}"


def render_rights() -> str:
    """One row for each rule."""
    lines = ["| who | may | of | where | for |", "| --- | --- | --- | --- | --- |"]
    for half, account in _ACCOUNTS.items():
        text = (_TEMPLATES / f"{half}-rbac.yaml").read_text(encoding="utf-8")
        lines += [_row(account, *rule) for rule in _read_rules(text)]
    return "\n".join(lines) + "\n"


def _read_rules(template: str) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Each rule, where it holds, and why."""
    where = why = ""
    for line in template.splitlines():
        if line.startswith("kind: "):
            where = {"ClusterRole": "everywhere", "Role": "its namespace"}.get(line.removeprefix("kind: "), where)
        elif line.startswith("# "):
            why = line.removeprefix("# ")
        elif line.startswith("- {apiGroups:"):
            rule, _, remark = _NAME.sub("the lease", line).partition(" # ")
            (parsed,) = yaml.safe_load(rule)
            yield parsed, where, "What it has to say." if parsed["resources"] == ["events"] else f"{why} {remark}".strip()


def _row(account: str, rule: dict[str, Any], where: str, why: str) -> str:
    group = rule["apiGroups"][0]
    resources = ", ".join(
        f"`{resource}{f'.{group}' if group and '/' not in resource else ''}`" for resource in rule["resources"]
    )
    named = f" (named {', '.join(rule['resourceNames'])})" if "resourceNames" in rule else ""
    return f"| {account} | {', '.join(rule['verbs'])} | {resources}{named} | {where} | {why} |"
