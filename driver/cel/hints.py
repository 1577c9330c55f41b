"""What was probably meant by a selector that does not compile: words of other languages, and halves of this one."""

from __future__ import annotations

import difflib
import re

from driver.cel.errors import SelectorError
from driver.cel.signatures_libraries import functions

_FIELDS = ("driver", "attributes", "capacity", "allowMultipleAllocations")
_WHERE = 'an attribute is device.attributes["DRIVER"].NAME, an amount device.capacity["DRIVER"].NAME'
_QUOTES = 'write names of drivers in quotes, as in device.attributes["gpu.nvidia.com"]'
_OPERATORS = {"and": "&&", "or": "||", "not": "!", "=": "=="}
_UNDECLARED = re.compile(r"(\w+) is not declared")
_NO_FIELD = re.compile(r"kubernetes\.DRADevice has no field (\w+)")
_NO_FUNCTION = re.compile(r"there is no function \.?([\w.]+)")
_OUT_OF_PLACE = re.compile(r"'(and|or|not|=)' (?:does not belong here|begins nothing)")
_NO_OVERLOAD = re.compile(r"(\S+) cannot be applied to (.*)\Z", re.DOTALL)


def find_error_hint(err: SelectorError) -> str:
    """A few words about the first fault; empty where nothing can be told."""
    span, text = err.faults[0]
    found = _OUT_OF_PLACE.match(text)
    if found:
        return f"write {_OPERATORS[found[1]]}"
    found = _UNDECLARED.match(text)
    if found:
        return _QUOTES if re.match(rf"{found[1]}\.\w+\.\w", err.source[span.start :]) else _find_field(found[1])
    found = _NO_FIELD.match(text)
    if found:
        return _find_field(found[1])
    found = _NO_FUNCTION.match(text)
    if found:
        return _nearest(found[1], [name for name in functions(has_includes=True) if name.isidentifier()])
    found = _NO_OVERLOAD.match(text)
    return _find_comparison(found[1], found[2]) if found else ""


def _find_field(name: str) -> str:
    near = difflib.get_close_matches(name, _FIELDS, n=1, cutoff=0.8)
    return f"did you mean device.{near[0]}?" if near else _WHERE


def _find_comparison(function: str, types: str) -> str:
    if "kubernetes.Quantity" in types:
        return 'compare amounts by .isGreaterThan(quantity("40Gi")), .isLessThan or .compareTo'
    if "kubernetes.Semver" in types:
        return 'compare versions by .isGreaterThan(semver("1.2.3")), .isLessThan or .compareTo'
    return _WHERE if function == "_==_" and types.startswith("(type(") else ""


def _nearest(name: str, known: list[str]) -> str:
    by_folded = {each.casefold(): each for each in known}
    near = difflib.get_close_matches(name.rpartition(".")[2].casefold(), list(by_folded), n=1)
    return f"did you mean {by_folded[near[0]]}?" if near else "docs/selectors.md lists the functions"
