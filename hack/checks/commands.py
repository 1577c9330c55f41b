"""What the commands of a page name exists: our programs' flags, the chart's values, manifests, kubectl's verbs.

Nothing is run. A word in capitals is the reader's to fill in.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from driver.cli.gpu.main import build_parser as build_gpu_parser
from driver.cli.main import build_parser, parse_with

_KUBECTL = frozenset(
    {
        "annotate",
        "api-resources",
        "apply",
        "auth",
        "config",
        "cordon",
        "create",
        "debug",
        "delete",
        "describe",
        "drain",
        "events",
    }
    | {"explain", "exec", "get", "label", "logs", "patch", "port-forward", "rollout", "run", "scale", "set", "taint", "top"}
    | {"uncordon", "version", "wait"}
)
_WITH_VALUE = frozenset({"-n", "--namespace", "--context", "--kubeconfig"})
_HELM = frozenset(
    {"install", "upgrade", "rollback", "uninstall", "template", "lint", "list", "history", "get", "show", "status"}
)
_ENDS = frozenset({"|", "||", "&&", ";", "&"})
_PLACEHOLDER = re.compile(r"[A-Z][A-Z_]+")
_WRAPPERS = frozenset({"!", "then", "do", "else", "if", "while", "sudo", "time"})
CHART = Path("deploy/helm/gpu-dra")


def split_commands(script: str) -> Iterator[list[str]]:
    """The simple commands of a script, as words: cut at pipes and ends of lines. Texts of here-documents are left out."""
    joined = re.sub(r"<<-?'?(\w+)'?\n.*?^\1$", "", script.replace("\\\n", " "), flags=re.MULTILINE | re.DOTALL)
    for line in joined.splitlines():
        words: list[str] = []
        for word in [*_read_words(line), ";"]:
            if word in _ENDS:
                yield from [words] if words else []
                words = []
            elif words or (word not in _WRAPPERS and not re.fullmatch(r"\w+=.*", word)):
                words.append(word)


def _read_words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        return list(lexer)
    except ValueError:
        return []  # a quote that goes on in the next line; the shell's own check reads it


def find_wrong(words: Sequence[str], repository: Path) -> Iterator[str]:
    """One line for each thing that a command names and that is not there."""
    program, arguments = words[0].rsplit("/", 1)[-1], list(words[1:])
    if program == "gpu-dra":
        yield from _try_parser(build_parser(), arguments)
    elif program == "kubectl-gpu" or (program == "kubectl" and arguments[:1] == ["gpu"]):
        yield from _try_parser(build_gpu_parser(), arguments[program == "kubectl" :])
    elif program == "kubectl":
        pairs = itertools.pairwise(["", *arguments])
        verb = next((word for before, word in pairs if not word.startswith("-") and before not in _WITH_VALUE), "")
        if verb not in _KUBECTL:
            yield f"kubectl has no {verb!r}, or hack/checks/commands.py does not know it"
        yield from _find_missing_files(arguments, repository)
    elif program == "helm":
        yield from _find_wrong_helm(arguments, repository)


def _try_parser(parsers: tuple[Any, Any], arguments: Sequence[str]) -> Iterator[str]:
    said = io.StringIO()
    until = next((i for i, word in enumerate(arguments) if re.match(r"\d?[<>]", word)), len(arguments))
    cut = [word.lower() if word.isupper() else word for word in arguments[:until]]  # NAME stands for a name of the reader's
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            parse_with(*parsers, cut)
        except SystemExit as err:
            if err.code:
                yield said.getvalue().strip()
        except argparse.ArgumentError as err:
            yield str(err)


def _find_missing_files(arguments: Sequence[str], repository: Path) -> Iterator[str]:
    for flag, value in itertools.pairwise(arguments):
        if flag in {"-f", "--filename", "--values"} and value != "-" and not _is_placeholder(value):
            found = list(repository.glob(value)) if not Path(value).is_absolute() else []
            if not found and not Path(value).is_absolute():
                yield f"there is no {value}"


def _find_wrong_helm(arguments: Sequence[str], repository: Path) -> Iterator[str]:
    plain = [word for word in arguments if not word.startswith("-")]
    if not plain or plain[0] not in _HELM:
        yield f"helm has no {plain[:1]}, or hack/checks/commands.py does not know it"
    if plain[:1] == ["template"] and not any(word.startswith("--kube-version") for word in arguments):
        yield "helm template takes an old Kubernetes unless --kube-version says which"
    yield from _find_missing_files(arguments, repository)
    values = yaml.safe_load((repository / CHART / "values.yaml").read_text())
    for flag, value in zip(arguments, [*arguments[1:], ""], strict=True):
        name, _, rest = flag.partition("=")
        if name in {"--set", "--set-json", "--set-string"}:
            path = (rest or value).partition("=")[0]
            if not _has_value(values, path):
                yield f"the chart has no value {path}"


def _has_value(values: Any, path: str) -> bool:
    for key in path.split("."):
        if values in ({}, [], None):
            return True  # the reader's: labels, tolerations
        if not isinstance(values, dict) or key.partition("[")[0] not in values:
            return False
        values = values[key.partition("[")[0]]
    return True


def _is_placeholder(word: str) -> bool:
    return _PLACEHOLDER.search(word) is not None or word.startswith(("/tmp", "$", "./my-"))
