"""The three places that a setting's text may come from. What is wrong in them is noted, all of it, and nothing is guessed."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from driver.config.setting import Setting
from driver.config.settings import declared
from driver.config.values import shown

CONFIG_FLAG = "--config"
CONFIG_VARIABLE = "GPU_DRA_CONFIG"

_PREFIX = "GPU_DRA_"
_MAX_FILE_BYTES = 64 * 1024
_MAX_DEPTH = 8
_NOT_OURS = re.compile(r"GPU_DRA_(?:DEVICE_.*|(?:.*_)?SERVICE_(?:HOST|PORT).*|(?:.*_)?PORT(?:_\d+_.*)?)")
"""``GPU_DRA_DEVICE_<address>`` is what a container with a device is given; the others Kubernetes sets in every pod of a
namespace that has a Service called gpu-dra..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A setting's text, and where it stands."""

    name: str
    text: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong: where, what, and what would be right."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def read_flags(args: argparse.Namespace) -> list[Given | Fault]:
    """The settings among parsed arguments. A relative path is meant from the folder that the command was typed in."""
    said = []
    for each in declared():
        text = getattr(args, each.name, None)
        if isinstance(text, str):
            is_relative_path = each.metavar in {"DIR", "FILE"} and text and not text.startswith("/")
            said.append(Given(name=each.name, text=str(Path.cwd() / text) if is_relative_path else text, where=each.flag))
    return list(said)


def read_environment(environ: Mapping[str, str]) -> list[Given | Fault]:
    """The settings among environment variables. An empty variable counts as unset, as manifests use it."""
    said: list[Given | Fault] = []
    for each in declared():
        for variable in each.variables:
            if environ.get(variable):
                said.append(Given(name=each.name, text=environ[variable], where=f"environment {variable}"))
                break
    known = {each.variables[0] for each in declared()} | {CONFIG_VARIABLE}
    for variable in sorted(environ):
        if variable.startswith(_PREFIX) and variable not in known and not _NOT_OURS.fullmatch(variable):
            said.append(Fault(where=f"environment {shown(variable)[1:-1]}", what=_unknown(variable, known)))
    return said


def read_file(path: str) -> list[Given | Fault]:
    """The settings in a YAML file: one mapping of keys to plain values."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_MAX_FILE_BYTES + 1)
        text = raw.decode()
    except (OSError, ValueError) as err:
        return [
            Fault(where=path, what=f"cannot be read ({_reason(err)}); give a YAML file with {CONFIG_FLAG} or {CONFIG_VARIABLE}")
        ]
    if len(raw) > _MAX_FILE_BYTES:
        return [Fault(where=path, what="is larger than 64 KiB; a config file holds a few lines of key: value")]
    return _read_text(path, text)


def _measure_depth(text: str) -> int:
    """Levels of nesting, up to the first that is too many. Composing takes a stack frame for each, reading events none."""
    import yaml  # noqa: PLC0415

    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            break
    return depth


def _describe_fault(err: Exception) -> str:
    """Where and what, in one line: PyYAML's own text has a picture of the place."""
    mark, problem = getattr(err, "problem_mark", None), getattr(err, "problem", None)
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark and problem else " ".join(str(err).split())


def _read_text(path: str, text: str) -> list[Given | Fault]:
    import yaml  # noqa: PLC0415  (60 ms that a process without a config file need not spend)

    try:
        if _measure_depth(text) > _MAX_DEPTH:
            return [Fault(where=path, what="is nested too deep; write one key: value a line")]
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as err:
        return [Fault(where=path, what=f"is not YAML ({_describe_fault(err)}); write one key: value a line")]
    if node is None or node.tag == "tag:yaml.org,2002:null":
        return []
    if not isinstance(node, yaml.MappingNode):
        return [Fault(where=path, what="is not a mapping; write one key: value a line, such as nodeName: node-a")]
    return _read_mapping(path, [(key, value) for key, value in node.value])


def _read_mapping(path: str, entries: Iterable[tuple[object, object]]) -> list[Given | Fault]:
    import yaml  # noqa: PLC0415

    by_key = {each.key: each for each in declared()}
    said: list[Given | Fault] = []
    seen: dict[str, int] = {}
    for key, value in entries:
        if not isinstance(key, yaml.ScalarNode):
            said.append(Fault(where=path, what="has a key that is no word; write one key: value a line"))
            continue
        line = key.start_mark.line + 1
        name, where = key.value, f"{path}:{line} {shown(key.value)[1:-1]}"
        if name in seen:
            said.append(Fault(where=where, what=f"is there twice, first in line {seen[name]}; keep one"))
        elif name not in by_key:
            said.append(Fault(where=where, what=_unknown(name, by_key)))
        else:
            said.append(_read_entry(by_key[name], value, where))
        seen.setdefault(name, line)
    return said


def _read_entry(each: Setting, value: object, where: str) -> Given | Fault:
    import yaml  # noqa: PLC0415

    if not isinstance(value, yaml.ScalarNode):
        return Fault(where=where, what=f"is a list or mapping; give one plain value ({each.metavar})")
    if value.tag == "tag:yaml.org,2002:null" or not value.value:
        return Fault(where=where, what=f"has no value; give one ({each.metavar}), or remove the line")
    return Given(name=each.name, text=value.value, where=where)


def _reason(err: Exception) -> str:
    return err.strerror or str(err) if isinstance(err, OSError) else "it is not UTF-8 text"


def _unknown(name: str, known: Iterable[str]) -> str:
    by_fold = {_fold(each): each for each in known}
    near = difflib.get_close_matches(_fold(name[:80]), list(by_fold), n=1, cutoff=0.6)
    hint = f"did you mean {by_fold[near[0]]}?" if near else "`gpu-dra kubelet-plugin --help` lists them all"
    return f"is no setting; {hint}"


def _fold(name: str) -> str:
    """What is compared of a name: no prefix that all variables have in common, else all of them are near to any."""
    return name.casefold().replace("_", "").replace("-", "").removeprefix("gpudra")
