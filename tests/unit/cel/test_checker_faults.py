"""What a selector that parses and does not type is answered with: every fault, with its place."""

from __future__ import annotations

import pytest

from driver.cel import Features, SelectorError, compile_selector

_DEFAULT = Features()
_LISTS = Features(list_attributes=True)


def _faults(source: str, features: Features = _DEFAULT) -> list[tuple[int, str]]:
    with pytest.raises(SelectorError) as caught:
        compile_selector(source, features=features)
    return [(span.start, text) for span, text in caught.value.faults]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        pytest.param("nothing == 1", (0, "nothing is not declared"), id="variable"),
        pytest.param("[1].map(x, y) == []", (11, "y is not declared"), id="variable in a macro"),
        pytest.param("cel.bind(x, x, true)", (12, "x is not declared"), id="bound variable in its own value"),
        pytest.param("[1].all(x, true) && x", (20, "x is not declared"), id="variable behind its macro"),
        pytest.param("nothing()", (7, "there is no function nothing"), id="function"),
        pytest.param("'a'.nothing()", (11, "there is no function nothing"), id="method"),
        pytest.param("'a'.all('b')", (7, "there is no function all"), id="macro with too few arguments"),
        pytest.param("device.nothing", (6, "kubernetes.DRADevice has no field nothing"), id="field of the device"),
        pytest.param("has(device.nothing)", (3, "kubernetes.DRADevice has no field nothing"), id="tested field of the device"),
        pytest.param(
            "device.?nothing.hasValue()", (6, "kubernetes.DRADevice has no field nothing"), id="optional field of the device"
        ),
        pytest.param("device.driver.x", (13, "a value of type string has no fields"), id="field of a text"),
        pytest.param("optional.of(1).x", (14, "a value of type int has no fields"), id="field of an optional number"),
        pytest.param("no.such.Type{} == 1", (0, "there is no message type no.such.Type"), id="message type"),
        pytest.param(
            "google.protobuf.Duration{hours: 1} == duration('1s')",
            (30, "google.protobuf.Duration has no field hours"),
            id="field of a message",
        ),
        pytest.param("device.attributes['a'].b.includes(1)", (33, "there is no function includes"), id="function of a gate"),
    ],
)
def test_what_there_is_not_is_named(source: str, fault: tuple[int, str]) -> None:
    assert _faults(source) == [fault]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        pytest.param("device.driver == 1", (14, "_==_ cannot be applied to (string, int)"), id="text and number"),
        pytest.param("1 == 1.0", (2, "_==_ cannot be applied to (int, double)"), id="integer and double"),
        pytest.param("1u + 1 == 2u", (3, "_+_ cannot be applied to (uint, int)"), id="unsigned and signed"),
        pytest.param("!1", (0, "!_ cannot be applied to (int)"), id="not of a number"),
        pytest.param("-'a' == 'b'", (0, "-_ cannot be applied to (string)"), id="minus of a text"),
        pytest.param("-1u == 1u", (0, "-_ cannot be applied to (uint)"), id="minus of an unsigned number"),
        pytest.param("1 ? true : false", (2, "_?_:_ cannot be applied to (int, bool, bool)"), id="condition that is none"),
        pytest.param("true ? 1 : 'a'", (5, "_?_:_ cannot be applied to (bool, int, string)"), id="branches that differ"),
        pytest.param("'a' in 'b'", (4, "@in cannot be applied to (string, string)"), id="in a text"),
        pytest.param("1 in ['a']", (2, "@in cannot be applied to (int, list(string))"), id="in a list of others"),
        pytest.param("'a' in {1: 2}", (4, "@in cannot be applied to (string, map(int, int))"), id="in a map of others"),
        pytest.param("[1][true] == 1", (3, "_[_] cannot be applied to (list(int), bool)"), id="index of a list"),
        pytest.param("{'a': 1}[1] == 1", (8, "_[_] cannot be applied to (map(string, int), int)"), id="key of a map"),
        pytest.param(
            "timestamp(0) + timestamp(0) == timestamp(0)",
            (13, "_+_ cannot be applied to (timestamp, timestamp)"),
            id="two times",
        ),
        pytest.param(
            "quantity('1') > quantity('2')",
            (14, "_>_ cannot be applied to (kubernetes.Quantity, kubernetes.Quantity)"),
            id="quantities have methods and no order",
        ),
        pytest.param(
            "device.capacity['a'].b == 1",
            (23, "_==_ cannot be applied to (kubernetes.Quantity, int)"),
            id="capacity and number",
        ),
        pytest.param("int == 1", (4, "_==_ cannot be applied to (type(int), int)"), id="type and value"),
        pytest.param("size() == 1", (4, "size cannot be applied to ()"), id="no argument"),
        pytest.param("size(1) == 1", (4, "size cannot be applied to (int)"), id="argument of a function"),
        pytest.param("'a'.startsWith(1)", (14, "startsWith cannot be applied to string.(int)"), id="argument of a method"),
        pytest.param("['a'].sum() == 'a'", (9, "sum cannot be applied to list(string).()"), id="target of a method"),
        pytest.param(
            "startsWith('a', 'b')", (10, "startsWith cannot be applied to (string, string)"), id="method as a function"
        ),
        pytest.param(
            "sets.contains([1], ['a'])",
            (13, "sets.contains cannot be applied to (list(int), list(string))"),
            id="lists that differ",
        ),
    ],
)
def test_a_call_that_takes_no_such_values_says_which_it_got(source: str, fault: tuple[int, str]) -> None:
    assert _faults(source) == [fault]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        pytest.param("true && 1", (8, "this must be of type bool, and is int"), id="term"),
        pytest.param("[1].all(x, x)", (11, "this must be of type bool, and is int"), id="condition of all"),
        pytest.param("[1].exists(x, 'a')", (14, "this must be of type bool, and is string"), id="condition of exists"),
        pytest.param("[?1] == [1]", (2, "this must be of type optional_type(int), and is int"), id="optional element"),
        pytest.param("{?'a': 1} == {}", (7, "this must be of type optional_type(int), and is int"), id="optional entry"),
        pytest.param(
            "google.protobuf.Duration{seconds: 'a'} == duration('1s')",
            (34, "this must be of type int, and is string"),
            id="field of a message",
        ),
        pytest.param("[1, 'a'] == []", (4, "this must be of type int as those before it, and is string"), id="second element"),
        pytest.param(
            "{'a': 1, 'b': 'c'} == {}", (14, "this must be of type int as those before it, and is string"), id="value"
        ),
        pytest.param("{'a': 1, 2: 1} == {}", (9, "this must be of type string as those before it, and is int"), id="key"),
        pytest.param(
            "[?dyn(1)] == [1]", (5, "an optional element must be known to be an optional value"), id="unknown optional"
        ),
        pytest.param(
            "device.driver.all(c, true)",
            (6, "a macro cannot go through a value of type string; it must be a list or a map"),
            id="macro on a text",
        ),
    ],
)
def test_a_part_of_another_type_says_which_it_must_be(source: str, fault: tuple[int, str]) -> None:
    assert _faults(source) == [fault]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        pytest.param("'a'", "string", id="text"),
        pytest.param("1", "int", id="number"),
        pytest.param("null", "null", id="null"),
        pytest.param("[]", "list(dyn)", id="empty list"),
        pytest.param("{}", "map(dyn, dyn)", id="empty map"),
        pytest.param("optional.of(true)", "optional_type(bool)", id="optional bool"),
        pytest.param("bool", "type(bool)", id="the type bool"),
        pytest.param("dyn(true)", "dyn", id="anything"),
        pytest.param("device", "kubernetes.DRADevice", id="the device"),
        pytest.param("device.attributes", "map(string, map(string, any))", id="all attributes"),
        pytest.param("device.attributes['a'].?b", "optional_type(any)", id="optional attribute"),
        pytest.param("device.capacity['a'].b", "kubernetes.Quantity", id="capacity"),
    ],
)
def test_the_whole_must_be_a_bool_or_an_attribute(source: str, shown: str) -> None:
    text = f"a selector must be of type bool or of an attribute's type, and this one is {shown}"
    assert _faults(source) == [(0, text)]


@pytest.mark.parametrize(
    ("source", "features", "result_type"),
    [
        pytest.param("true", Features(), "bool", id="bool"),
        pytest.param("device.attributes['a'].b", Features(), "google.protobuf.Any", id="attribute"),
        pytest.param("device.attributes['a'].b", _LISTS, "dyn", id="attribute that may be a list"),
        pytest.param("dyn(1)", _LISTS, "dyn", id="anything where an attribute may be a list"),
    ],
)
def test_the_type_of_a_whole_that_is_taken(source: str, features: Features, result_type: str) -> None:
    assert compile_selector(source, features=features).result_type == result_type


def test_all_faults_are_told_in_the_order_of_the_text() -> None:
    assert _faults("one && device.two || 3") == [
        (0, "one is not declared"),
        (13, "kubernetes.DRADevice has no field two"),
        (21, "this must be of type bool, and is int"),
    ]


def test_one_fault_does_not_bring_others() -> None:
    """What has a fault counts as of any type."""
    assert _faults("size(nothing) == 'a'.nothing2().x") == [
        (5, "nothing is not declared"),
        (29, "there is no function nothing2"),
    ]


def test_at_most_a_hundred_faults_are_kept() -> None:
    assert len(_faults(" && ".join(f"v{index}" for index in range(150)))) == 100


@pytest.mark.parametrize(
    ("source", "name"),
    [
        pytest.param("type(google.protobuf.Value) == type", "google.protobuf.Value", id="message type"),
        pytest.param("type(kubernetes.DRADevice) == type", "kubernetes.DRADevice", id="type of the device"),
    ],
)
def test_a_type_that_only_the_checker_knows_is_no_value(source: str, name: str) -> None:
    assert [text for _, text in _faults(source)] == [f"the type {name} cannot be used as a value"]


def test_a_type_that_no_machine_can_hold_is_refused() -> None:
    doubled = "[{1: 1}]"
    for _ in range(14):
        doubled = f"cel.bind(x, {doubled}, [{{x: x}}])"
    assert _faults(f"{doubled} == []") == [(0, "the type of a part of this selector is too large")]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("cel.bind(device, 'a', device == 'a')", id="a local variable hides the device"),
        pytest.param("cel.bind(int, 1, int == 1)", id="a local variable hides a type"),
        pytest.param("[1].all(x, ['a'].all(x, x == 'a') && x == 1)", id="an inner variable hides an outer one"),
        pytest.param("cel.bind(x, {'driver': 1}, x.driver == 1)", id="a field of a local map"),
        pytest.param(".device.driver == 'a'", id="a leading dot means the global name"),
        pytest.param("[].all(x, x == 1 && x == 1)", id="an element of an empty list is of any type"),
        pytest.param("[dyn(1), dyn('a')].size() == 2", id="elements of any type"),
        pytest.param("[[], [1]] == [[1]]", id="an empty list takes the type of the others"),
        pytest.param("null == google.protobuf.Int64Value{value: 1}", id="a wrapper may be null"),
        pytest.param("duration('1s') == null", id="a duration may be null"),
        pytest.param("(true ? dyn(1) : 'a') == 'a'", id="a branch of any type goes with each other"),
        pytest.param("optional.of(device).driver.hasValue()", id="a field of an optional device"),
        pytest.param("int == string", id="two types"),
    ],
)
def test_what_the_checker_takes(source: str) -> None:
    compile_selector(source)
