"""Which CEL type a value has while a selector runs."""

from __future__ import annotations

from typing import Any

from driver.cel import types
from driver.cel.errors import EvaluationError
from driver.cel.messages import MessageValue
from driver.cel.network import Cidr, Ip
from driver.cel.quantity import Quantity
from driver.cel.semver import Semver
from driver.cel.types import Type
from driver.cel.urls import Url
from driver.cel.values import DeviceMap, DomainMap, Duration, Map, MutableList, MutableMap, Optional, Timestamp, Uint
from driver.cel.well_known_formats import NamedFormat

_TYPES: dict[type, Type] = {
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
    list: types.LIST,
    MutableList: types.LIST,
    Map: types.MAP,
    MutableMap: types.MAP,
    DeviceMap: types.MAP,
    DomainMap: types.MAP,
    Optional: types.OPTIONAL,
    Duration: types.DURATION,
    Timestamp: types.TIMESTAMP,
    Quantity: types.QUANTITY,
    Semver: types.SEMVER,
    Ip: types.IP,
    Cidr: types.CIDR,
    Url: types.URL,
    NamedFormat: types.NAMED_FORMAT,
    Type: types.TYPE,
}


def type_of_value(value: Any) -> Type:
    """The type of a value; of lists and maps without what they hold."""
    if type(value) is MessageValue:
        return types.struct(value.name)
    return _TYPES[type(value)]


def type_name(value: Any) -> str:
    """The name of a value's type."""
    return type_of_value(value).name


def is_of_type(value: Any, wanted: Type) -> bool:
    """Whether a value can be passed as the type; of lists and maps only the first element is looked at, as Kubernetes does."""
    kind = wanted.kind
    if kind in (types.Kind.DYN, types.Kind.ANY, types.Kind.PARAM):
        return True
    if type_name(value) != wanted.name:
        return False
    if kind is types.Kind.LIST:
        return not value or is_of_type(value[0], wanted.parameters[0])
    if kind is types.Kind.MAP and value:
        key, item = next(value.items())
        return is_of_type(key, wanted.parameters[0]) and is_of_type(item, wanted.parameters[1])
    return True


PYTHON_TYPES: dict[Type, tuple[type, ...]] = {}
"""For types that one look at the Python type decides: the Python types of their values."""
for _python, _cel in _TYPES.items():
    if not _cel.parameters:
        PYTHON_TYPES[_cel] = (*PYTHON_TYPES.get(_cel, ()), _python)


def no_overload(function: str, *values: Any) -> EvaluationError:
    """The error of a function that does not take values of these types."""
    return EvaluationError(f"no such overload: {function}({', '.join(map(type_name, values))})")
