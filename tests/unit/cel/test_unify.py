"""When one type can stand for another, and what type parameters are bound to on the way."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.cel import types
from driver.cel.signatures import parse_signatures, parse_type
from driver.cel.types import Type, TypeTooLarge
from driver.cel.unify import Bindings, most_general

_A, _B = types.parameter("A"), types.parameter("B")
_WRAPPER = types.nullable(types.INT)


def _can(one: Type | str, other: Type | str) -> bool:
    one, other = (parse_type(each) if isinstance(each, str) else each for each in (one, other))
    return Bindings().is_assignable(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("int", "int", id="the same"),
        pytest.param("dyn", "int", id="anything for a number"),
        pytest.param("int", "dyn", id="a number for anything"),
        pytest.param("any", "list(int)", id="any message for a list"),
        pytest.param(types.ERROR, "int", id="what was refused already"),
        pytest.param("list(int)", "list(dyn)", id="a list for a list of anything"),
        pytest.param("map(string,map(string,any))", "map(string,map(string,int))", id="deep in a map"),
        pytest.param(types.NULL, types.NULL, id="null for null"),
        pytest.param(types.NULL, "duration", id="null for a duration"),
        pytest.param("timestamp", types.NULL, id="a timestamp for null"),
        pytest.param(types.NULL, types.DEVICE, id="null for a struct"),
        pytest.param(types.NULL, "optional(int)", id="null for an optional"),
        pytest.param(types.NULL, _WRAPPER, id="null for a wrapper"),
        pytest.param("int", _WRAPPER, id="a number for its wrapper"),
        pytest.param("type(int)", "type(string)", id="every type is a type"),
    ],
)
def test_one_can_stand_for_the_other(one: Type | str, other: Type | str) -> None:
    assert _can(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("int", "uint", id="signed for unsigned"),
        pytest.param("int", "double", id="integer for double"),
        pytest.param("list(int)", "list(string)", id="lists of others"),
        pytest.param("list(int)", "map(int,int)", id="list for map"),
        pytest.param("map(string,int)", "map(int,int)", id="maps with other keys"),
        pytest.param("optional(int)", "int", id="optional for its value"),
        pytest.param("optional(int)", "optional(string)", id="optionals of others"),
        pytest.param(types.NULL, "int", id="null for a number"),
        pytest.param(types.NULL, "string", id="null for a text"),
        pytest.param("list(int)", types.NULL, id="a list for null"),
        pytest.param(types.QUANTITY, types.SEMVER, id="structs of other names"),
        pytest.param("type(int)", "int", id="a type for its value"),
        pytest.param(types.IP, types.CIDR, id="address for block"),
    ],
)
def test_one_cannot_stand_for_the_other(one: Type | str, other: Type | str) -> None:
    assert not _can(one, other)


def _bound(bindings: Bindings, *parameters: Type) -> list[str]:
    return [bindings.substitute(each, free_is_dyn=True).short_name() for each in parameters]


@pytest.mark.parametrize(
    ("given_types", "wanted", "bound"),
    [
        pytest.param(["int"], ["A"], ["int", "dyn"], id="a value"),
        pytest.param(["list(int)"], ["list(A)"], ["int", "dyn"], id="what a list holds"),
        pytest.param(["map(string,int)", "string"], ["map(A,B)", "A"], ["string", "int"], id="a map and its key"),
        pytest.param(["int", "dyn"], ["A", "A"], ["dyn", "dyn"], id="what says less wins"),
        pytest.param(["dyn", "int"], ["A", "A"], ["dyn", "dyn"], id="what says less wins, in any order"),
        pytest.param(["list(dyn)", "list(int)"], ["A", "A"], ["list(dyn)", "dyn"], id="what says less wins inside of lists"),
        pytest.param(["B", "int"], ["A", "A"], ["int", "int"], id="a parameter for a parameter"),
    ],
)
def test_parameters_are_bound_to_what_stands_for_them(given_types: list[str], wanted: list[str], bound: list[str]) -> None:
    bindings = Bindings()
    assert bindings.are_assignable([parse_type(each) for each in given_types], [parse_type(each) for each in wanted])
    assert _bound(bindings, _A, _B) == bound


def test_a_parameter_cannot_be_two_types() -> None:
    assert not Bindings().are_assignable([types.INT, types.STRING], [_A, _A])


def test_a_failed_attempt_binds_nothing() -> None:
    bindings = Bindings()
    assert not bindings.are_assignable([types.INT, types.INT], [_A, types.STRING])
    assert bindings.find(_A) is None
    assert bindings.is_assignable(types.STRING, _A)
    assert bindings.find(_A) is types.STRING


def test_another_number_of_types_fails() -> None:
    assert not Bindings().are_assignable([types.INT], [])


def test_a_parameter_is_never_bound_to_what_holds_it() -> None:
    bindings = Bindings()
    bindings.is_assignable(types.list_of(_A), _A)
    assert bindings.substitute(_A, free_is_dyn=False) is _A


def test_a_free_parameter_stays_or_becomes_anything() -> None:
    held = types.map_of(_A, types.optional_of(types.list_of(_B)))
    assert Bindings().substitute(held, free_is_dyn=False) is held
    assert Bindings().substitute(held, free_is_dyn=True).short_name() == "map(dyn, optional_type(list(dyn)))"


def test_only_parameters_are_found() -> None:
    assert Bindings().find(types.INT) is None


_TYPES = st.recursive(
    st.sampled_from([types.INT, types.STRING, types.BOOL, types.DYN, types.DURATION, types.NULL, types.QUANTITY, types.IP]),
    lambda inner: st.one_of(
        inner.map(types.list_of), inner.map(types.optional_of), st.tuples(inner, inner).map(lambda pair: types.map_of(*pair))
    ),
    max_leaves=6,
)


@given(_TYPES)
@settings(max_examples=60, deadline=None)
def test_every_type_can_stand_for_itself_and_binds_any_parameter(kind: Type) -> None:
    bindings = Bindings()
    assert bindings.are_assignable([kind, kind], [kind, _A])
    assert bindings.substitute(_A, free_is_dyn=True) is kind


@given(_TYPES, _TYPES)
@settings(max_examples=100, deadline=None)
def test_standing_for_each_other_has_no_direction(one: Type, other: Type) -> None:
    assert _can(one, other) == _can(other, one)


@given(_TYPES, _TYPES)
@settings(max_examples=100, deadline=None)
def test_the_more_general_of_two_is_one_of_them(one: Type, other: Type) -> None:
    assert most_general(one, other) in (one, other)
    assert most_general(one, one) is one
    assert most_general(types.DYN, one) is types.DYN


@pytest.mark.parametrize(
    ("kind", "short", "full"),
    [
        pytest.param(types.ANY, "any", "google.protobuf.Any", id="any"),
        pytest.param(types.DURATION, "duration", "google.protobuf.Duration", id="duration"),
        pytest.param(types.NULL, "null", "null_type", id="null"),
        pytest.param(types.ERROR, "!error!", "error", id="error"),
        pytest.param(types.list_of(types.ANY), "list(any)", "list(google.protobuf.Any)", id="list"),
        pytest.param(
            types.map_of(types.STRING, types.TIMESTAMP),
            "map(string, timestamp)",
            "map(string, google.protobuf.Timestamp)",
            id="map",
        ),
        pytest.param(types.optional_of(types.INT), "optional_type(int)", "optional_type(int)", id="optional"),
        pytest.param(types.type_of(types.INT), "type(int)", "type(int)", id="type"),
        pytest.param(_WRAPPER, "int", "wrapper(int)", id="wrapper"),
        pytest.param(_A, "A", "<A>", id="parameter"),
        pytest.param(types.DEVICE, "kubernetes.DRADevice", "kubernetes.DRADevice", id="device"),
    ],
)
def test_a_type_has_a_name_for_people_and_one_for_kubernetes(kind: Type, short: str, full: str) -> None:
    assert (kind.short_name(), kind.full_name()) == (short, full)


def test_equal_types_are_the_same_object() -> None:
    assert parse_type("map(string,list(A))") is types.map_of(types.STRING, types.list_of(_A))


def test_types_that_differ_only_in_the_names_of_parameters_can_count_as_the_same() -> None:
    assert not types.list_of(_A).is_same(types.list_of(_B))
    assert types.list_of(_A).is_same(types.list_of(_B), by_name=False)
    assert not types.list_of(_A).is_same(types.list_of(types.INT), by_name=False)


def test_a_type_of_too_many_parts_cannot_be_made() -> None:
    kind = types.INT
    for _ in range(11):
        kind = types.map_of(kind, kind)
    assert kind.weight == 4095
    with pytest.raises(TypeTooLarge):
        types.list_of(types.list_of(kind))


def test_a_line_of_the_tables_is_one_overload() -> None:
    (method, function) = parse_signatures("f .m(list(A) map(A,B)) optional(B)\n\n g.h x(int) bool")
    assert (method.function, method.id, method.is_method, method.parameters) == ("f", "m", True, ("A", "B"))
    assert [arg.short_name() for arg in method.args] == ["list(A)", "map(A, B)"]
    assert method.result is types.optional_of(_B)
    assert (function.function, function.is_method, function.args, function.result) == ("g.h", False, (types.INT,), types.BOOL)


def test_a_line_that_is_no_overload_is_an_error_of_ours() -> None:
    with pytest.raises(ValueError, match="no signature: f g"):
        parse_signatures("f g")
