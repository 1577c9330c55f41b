"""The admission check of configs: CEL made from the table that prepare reads them with, saying the same words. Pure.

``hack.docs`` writes ``deploy/admission/refuse-wrong-configs.yaml`` with it. Kubernetes gives the text of a policy's first
refusal only, so one expression gathers every fault. A name is bound as the one element of a list that is mapped over, since
CEL has no let.
"""

from __future__ import annotations

from driver.api.config_schema import (
    DEVICE_KEY,
    MISSING,
    NO_OBJECT,
    ODD_FIELD,
    ODD_NUMBER,
    PLAIN,
    ByDevice,
    Choice,
    Fields,
    Flag,
    Kind,
    Memory,
    Whole,
    build_missing_words,
    build_only_with_words,
    build_unknown_words,
)
from driver.api.gpu_config import NVIDIA_VERSION, OWN_VERSION, build_head, list_schemas

_NONE = "[]"
_HEAD = ("apiVersion", "kind")


def build_faults(config: str) -> str:
    """CEL for the list of faults of one config's parameters, which ``config`` is the CEL name of: ``<path>: <what is wrong>``.

    They are those of ``gpu_config.decode_config``, but for keys that stand twice: the API server has read the text by then.
    """
    branches = [f"type({config}) != map ? [{_text('parameters: must be an object')}]"]
    for (version, kind), schema in list_schemas().items():
        faults = _NONE if schema is None else _object(schema, config, "")
        branches.append(f"{_is(config, 'apiVersion', version)} && {_is(config, 'kind', kind)} ? {faults}")
    for version in (NVIDIA_VERSION, OWN_VERSION):
        branches.append(f"{_is(config, 'apiVersion', version)} ? {_head(build_head(version), config)}")
    return " : ".join([*branches, _head(build_head(""), config)])


def _is(config: str, name: str, text: str) -> str:
    return f"{_field(config, name)} == {_text(text)}"


def _head(head: Fields, config: str) -> str:
    """Of a config of no known kind only these two fields are looked at."""
    return _join([_member(head, name, kind, config, "") for name, kind in head.fields.items()])


def _faults(kind: Kind, value: str, path: str) -> str:
    """CEL for the faults of ``value``, which is not null; ``path`` is CEL for its path."""
    match kind:
        case Fields():
            return f"type({value}) != map ? [{_wrong(path, value, NO_OBJECT)}] : {_object(kind, value, path)}"
        case ByDevice():
            return f"type({value}) != map ? [{_wrong(path, value, NO_OBJECT)}] : {_map(kind, value, path)}"
        case _:
            return f"{_is_right(kind, value)} ? {_NONE} : [{_wrong(path, value, kind.words())}]"


def _object(kind: Fields, value: str, path: str) -> str:
    names = f"[{', '.join(_text(name) for name in sorted(kind.fields))}]"
    shown = f"{_add(path, '')} + (k.matches({_raw(PLAIN)}) && k != '' ? k : {_text(ODD_FIELD)})"
    words = _text(": " + build_unknown_words(kind.fields))
    unknown = f"{value}.map(k, k).filter(k, !(k in {names})).map(k, {shown} + {words})"
    members = [_member(kind, name, each, value, path) for name, each in kind.fields.items() if path or name not in _HEAD]
    return _join([unknown, *members, *(_only_with(kind, name, value, path) for name in kind.only_with)])


def _member(owner: Fields, name: str, kind: Kind, value: str, path: str) -> str:
    inner = f"v{len(path) % 97}{name}"
    where = _add(path, name)
    missing = f"[{where} + {_text(': ' + build_missing_words(kind))}]" if name in owner.required else _NONE
    return f"[{_field(value, name)}].map({inner}, {inner} == null ? {missing} : {_faults(kind, inner, where)})[0]"


def _only_with(kind: Fields, name: str, value: str, path: str) -> str:
    other, option = kind.only_with[name]
    rivals = [each for each in _options(kind.fields[other]) if each != option]
    is_wrong = f"{_field(value, name)} != null && {_field(value, other)} in [{', '.join(map(_text, rivals))}]"
    return f"({is_wrong} ? [{_add(path, name)} + {_text(': ' + build_only_with_words(other, option))}] : {_NONE})"


def _options(kind: Kind) -> tuple[str, ...]:
    return kind.options if isinstance(kind, Choice) else ()


def _map(kind: ByDevice, value: str, path: str) -> str:
    where = f"{path} + '[' + k + ']'"
    inner = f"[{value}[k]].map(e, e == null ? [{where} + {_text(': ' + MISSING)}] : {_faults(kind.value, 'e', where)})[0]"
    stranger = f"[{path} + ': ' + {_describe('k')} + {_text(' ' + kind.key_words)}]"
    each = f"!k.matches({_raw(DEVICE_KEY)}) ? {stranger} : {inner}"
    return f"{_flatten(f'{value}.map(k, k).map(k, {each})')}"


def _flatten(lists: str) -> str:
    """Of at most as many lists as a config of 10 KiB can have: CEL has no fold, so texts are joined and split."""
    return f"{lists}.map(l, l.join('\\n')).filter(t, t != '').join('\\n').split('\\n').filter(t, t != '')"


def _is_right(kind: Choice | Whole | Memory | Flag, value: str) -> str:
    match kind:
        case Flag():
            return f"type({value}) == bool"
        case Choice():
            return f"{value} in [{', '.join(map(_text, kind.options))}]"
        case Whole():
            return f"(type({value}) == int && {value} >= {kind.lowest} && {value} <= {kind.highest})"
        case Memory():
            amount = f"quantity(string({value}))"
            is_text = f"(type({value}) == int || type({value}) == string) && isQuantity(string({value}))"
            low, high = (f"quantity({_text(limit)})" for limit in (kind.lowest, kind.highest))
            return f"({is_text} && {amount}.compareTo({low}) >= 0 && {amount}.compareTo({high}) <= 0)"


def _wrong(path: str, value: str, words: str) -> str:
    return f"{path} + ': ' + {_describe(value)} + {_text(' ' + words)}"


def _describe(value: str) -> str:
    plain = f"({value}.matches({_raw(PLAIN)}) ? '\"' + {value} + '\"' : 'a text that is not plain')"
    return (
        f"(type({value}) == string ? {plain} : type({value}) == bool || type({value}) == int ? string({value}) : "
        f"type({value}) == double ? {_text(ODD_NUMBER)} : type({value}) == list ? 'a list' : 'an object')"
    )


def _field(value: str, name: str) -> str:
    """The field, or null."""
    return f"{value}[?{_text(name)}].orValue(dyn(null))"


def _add(path: str, name: str) -> str:
    """CEL for a path of one more field; ``''`` is the top."""
    if not path:
        return _text(name)
    if " " not in path:  # a text alone
        return _text(f"{path[1:-1]}.{name}")
    return f"{path} + {_text('.' + name)}"


def _join(lists: list[str]) -> str:
    return "(" + " + ".join(f"({each})" for each in lists) + ")"


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _raw(pattern: str) -> str:
    return f"r'{pattern}'"
