"""What a selector may cost at most, function by function, in the units of Kubernetes' cost model.

A name or a selection costs 1, a list 10, a map 30, a message 40; a text costs a tenth of its length, rounded up, each time
that it is gone through. What is not known to be smaller is as large as the API allows: 63 bytes of driver name, 64 of an
attribute's text, 32 attributes of a domain.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.cel import Features, compile_selector
from driver.cel.intervals import MOST, ONE, UNKNOWN, ZERO, Interval, add, exactly

_DRIVER = 2
"""``device`` and its field."""
_DRIVER_TEXT = 7
"""A tenth of 63 bytes."""
_ATTRIBUTE = 4
"""``device``, ``attributes``, a domain and a name."""
_LIST, _MAP, _MESSAGE = 10, 30, 40
_BEYOND_EVERY_LIMIT = 10**15
_LISTS = Features(list_attributes=True)


def _cost(source: str, features: Features | None = None) -> int:
    return compile_selector(source, features=features or Features()).max_cost


@pytest.mark.parametrize(
    ("source", "cost"),
    [
        pytest.param("true", 0, id="a literal is free"),
        pytest.param("!true", 1, id="a call costs one"),
        pytest.param("1 + 1 == 2", 1 + 1, id="numbers are compared at once"),
        pytest.param("true && (1 < 2)", 1, id="and is free"),
        pytest.param("(1 < 2) || (2 < 3)", 1 + 1, id="or costs both sides"),
        pytest.param("true ? 1 < 2 : !(1 + 1 < 2)", 3, id="a condition costs its dearer branch"),
        pytest.param("has(device.driver)", 1, id="a test costs what it tests on"),
        pytest.param("device.allowMultipleAllocations", 2, id="a field"),
        pytest.param("device.attributes['a'].b", _ATTRIBUTE, id="an attribute"),
        pytest.param("'b' in device.attributes['a']", 3 + 1, id="in a map"),
        pytest.param("device.attributes['a'].?b.orValue(1) == 1", _ATTRIBUTE + 1 + 1, id="an optional attribute"),
        pytest.param("{} == {}", 2 * _MAP, id="maps"),
        pytest.param("[device.driver] == []", 2 * _LIST + _DRIVER, id="lists"),
        pytest.param("google.protobuf.Duration{} == duration('1s')", _MESSAGE + 1 + 1, id="a message"),
        pytest.param("[1][0] == 1", _LIST + 1 + 1, id="an index"),
        pytest.param("dyn(1) == 1", 1 + 1, id="dyn"),
        pytest.param("cel.bind(x, 1 + 1, x == x)", _LIST + 1 + 2 + 1, id="a local variable costs a list and its uses"),
    ],
)
def test_the_language(source: str, cost: int) -> None:
    assert _cost(source) == cost


@pytest.mark.parametrize(
    ("source", "cost"),
    [
        pytest.param("device.driver == 'a'", 1, id="equal, by the shorter"),
        pytest.param("device.driver != 'abcdefghijklmnopqrstu'", 3, id="different, by the shorter"),
        pytest.param("device.driver < 'abcdefghijklmnopqrstu'", 3, id="less, by the shorter"),
        pytest.param("device.driver == device.driver", _DRIVER + _DRIVER_TEXT, id="equal, both as long"),
        pytest.param("device.driver.startsWith('gpu.nvidia.com')", 2, id="startsWith, by what is looked for"),
        pytest.param("device.driver.endsWith('a')", 1, id="endsWith, by what is looked for"),
        pytest.param("device.driver.contains('abcdefghijklmnop')", _DRIVER_TEXT * 2, id="contains, by the product"),
        pytest.param(
            "device.driver.matches('[a-z]+')", _DRIVER_TEXT * 2, id="matches, by the text and a quarter of the pattern"
        ),
        pytest.param("matches(device.driver, 'a')", _DRIVER_TEXT * 1, id="matches as a function"),
        pytest.param("device.driver.find('[a-z]') == ''", _DRIVER_TEXT * 2, id="find"),
        pytest.param("device.driver.size() > 0", 1 + 1, id="size is known"),
        pytest.param("device.driver.lowerAscii() == 'a'", _DRIVER_TEXT + 1, id="lowerAscii"),
        pytest.param("device.driver.upperAscii() == 'a'", _DRIVER_TEXT + 1, id="upperAscii"),
        pytest.param("device.driver.trim() == 'a'", _DRIVER_TEXT + 1, id="trim"),
        pytest.param("device.driver.substring(1) == 'a'", _DRIVER_TEXT + 1, id="substring"),
        pytest.param("device.driver.charAt(0) == 'a'", 1 + 1, id="charAt"),
        pytest.param("device.driver.replace('a', 'b') == 'a'", 2 * _DRIVER_TEXT - 1 + 1, id="replace goes through it twice"),
        pytest.param("device.driver.split('.').size() > 0", 2 * _DRIVER_TEXT - 1 + 1 + 1, id="split goes through it twice"),
        pytest.param("strings.quote(device.driver) == 'a'", _DRIVER_TEXT + 1, id="quote"),
        pytest.param("bytes(device.driver) == b'a'", _DRIVER_TEXT + 1, id="bytes of a text"),
        pytest.param("device.driver + 'abc' == 'a'", _DRIVER_TEXT + 1, id="sum, by both"),
        pytest.param("'%s'.format([device.driver]) == ''", 1 + _LIST, id="format, by the format and not by its result"),
        pytest.param("int(device.driver) == 1", 1 + 1, id="a number from a text"),
    ],
)
def test_texts(source: str, cost: int) -> None:
    assert _cost(source) == _DRIVER + cost


@pytest.mark.parametrize(
    ("source", "cost"),
    [
        pytest.param("isURL(device.driver)", 1, id="isURL"),
        pytest.param("url(device.driver).getHost() == ''", _DRIVER_TEXT + 1, id="url"),
        pytest.param("isIP(device.driver)", _DRIVER_TEXT, id="isIP"),
        pytest.param("ip(device.driver).isLoopback()", _DRIVER_TEXT + 1, id="ip"),
        pytest.param("ip.isCanonical(device.driver)", 13, id="isCanonical goes through it twice"),
        pytest.param("isCIDR(device.driver)", _DRIVER_TEXT, id="isCIDR"),
        pytest.param("cidr(device.driver).containsIP(ip('10.0.0.1'))", _DRIVER_TEXT + 1 + 4, id="a block and an address"),
        pytest.param("cidr(device.driver).containsIP('10.0.0.1')", _DRIVER_TEXT + 4 + 1, id="a block and an address as text"),
        pytest.param("cidr(device.driver).containsCIDR('10.0.0.0/8')", _DRIVER_TEXT + 4 + 2 + 1 + 1, id="a block in a block"),
        pytest.param("isQuantity(device.driver)", _DRIVER_TEXT, id="isQuantity"),
        pytest.param("quantity(device.driver) == quantity('1')", _DRIVER_TEXT + 1 + 1, id="quantities are compared at once"),
        pytest.param("isSemver(device.driver)", _DRIVER_TEXT, id="isSemver"),
        pytest.param("semver(device.driver) == semver('1.0.0')", _DRIVER_TEXT + 1 + 1, id="versions are compared at once"),
        pytest.param(
            "format.uuid().validate(device.driver).hasValue()", 1 + _DRIVER_TEXT * 32 + 1, id="a named format is a long pattern"
        ),
    ],
)
def test_the_libraries_of_kubernetes(source: str, cost: int) -> None:
    assert _cost(source) == _DRIVER + cost


@pytest.mark.parametrize(
    ("source", "cost"),
    [
        pytest.param("[1, 2, 3].sum() == 6", _LIST + 3 + 1, id="sum, by the length"),
        pytest.param("[1, 2, 3].max() == 3", _LIST + 3 + 1, id="max, by the length"),
        pytest.param("[1, 2, 3].isSorted()", _LIST + 3, id="isSorted, by the length"),
        pytest.param("[1, 2, 3].indexOf(2) == 1", _LIST + 3 + 1, id="indexOf, by the length"),
        pytest.param("1 in [1, 2, 3]", _LIST + 3, id="in, by the length"),
        pytest.param("[1, 2, 3].reverse() == []", 2 * _LIST + _LIST + 3 + 1, id="reverse makes a list"),
        pytest.param("[1, 2, 3].slice(0, 2) == []", 2 * _LIST + _LIST + 2 + 1, id="slice makes a list as long as it says"),
        pytest.param("lists.range(7) == []", _LIST + _LIST + 7 + 1, id="range makes a list as long as it says"),
        pytest.param("[1, 2, 3].sort() == []", 2 * _LIST + _LIST + 2 * 3 * 3 + 1, id="sort, by the square"),
        pytest.param("[1, 2, 3].distinct() == []", 2 * _LIST + _LIST + 2 * 3 * 3 + 1, id="distinct, by the square"),
        pytest.param("[[1], [2]].flatten() == []", 4 * _LIST + _LIST + 2 + 1, id="flatten, by the length"),
        pytest.param("[[1], [2]].flatten(3) == []", 4 * _LIST + _LIST + 3 * 2 + 1, id="flatten, by the depth too"),
        pytest.param("[1, 2] + [3] == []", 3 * _LIST + 1, id="a sum of lists costs one"),
        pytest.param("sets.contains([1, 2], [3])", 2 * _LIST + 2 * 1 + 1, id="sets.contains, by the product"),
        pytest.param("sets.intersects([1, 2], [3])", 2 * _LIST + 2 * 1 + 1, id="sets.intersects, by the product"),
        pytest.param("sets.equivalent([1, 2], [3])", 2 * _LIST + 2 * 2 * 1 + 1, id="sets.equivalent, by twice the product"),
    ],
)
def test_lists(source: str, cost: int) -> None:
    """An empty list to compare with costs its making, and the comparison nothing."""
    assert _cost(source) == cost


@pytest.mark.parametrize(
    ("source", "cost"),
    [
        pytest.param("[1, 2, 3].all(x, x > 0)", _LIST + 3 * (2 + 1 + 2) + 1, id="all"),
        pytest.param("[1, 2, 3].exists(x, x > 0)", _LIST + 3 * (3 + 1 + 2) + 1, id="exists"),
        pytest.param("[1, 2, 3].map(x, x) == []", 3 * _LIST + 3 * (_LIST + 1 + 1 + 1) + 1, id="map makes a list each time"),
        pytest.param(
            "[[1, 2], [3]].all(l, l.all(x, x > 0))", 3 * _LIST + 2 * (2 + 1 + 1 + 2 * (2 + 1 + 2) + 1) + 1, id="loops in loops"
        ),
        pytest.param(
            "device.attributes['a'].all(k, k == 'a')", 3 + 32 * (2 + 1 + 2) + 1, id="a domain has up to 32 attributes"
        ),
        pytest.param("device.attributes.all(d, d == 'a')", 2 + 32 * (2 + 1 + 2) + 1, id="a device has up to 32 domains"),
    ],
)
def test_loops_cost_their_rounds(source: str, cost: int) -> None:
    """A round of ``all`` asks whether it is decided (2), names its result (1), and costs its condition."""
    assert _cost(source) == cost


@pytest.mark.parametrize(
    ("source", "cost"),
    [
        pytest.param("device.attributes['a'].b == 'c'", _ATTRIBUTE + 1, id="compared with a text"),
        pytest.param("device.attributes['a'].b == 1", _ATTRIBUTE + 1, id="compared with a number"),
        pytest.param("device.attributes['a'].b.startsWith('c')", _ATTRIBUTE + 1, id="startsWith"),
        pytest.param("device.attributes['a'].b.matches('c')", _ATTRIBUTE + 7, id="matches, of 64 bytes"),
        pytest.param("device.attributes['a'].b == device.attributes['a'].c", 2 * _ATTRIBUTE + 7, id="two attributes"),
        pytest.param("device.capacity['a'].b == quantity('1')", _ATTRIBUTE + 1 + 1, id="a capacity"),
    ],
)
def test_attributes_are_as_large_as_the_api_allows(source: str, cost: int) -> None:
    assert _cost(source) == cost


def test_an_attribute_that_may_be_a_list_has_up_to_64_elements() -> None:
    assert _cost("device.attributes['a'].b.includes(1)", _LISTS) == _ATTRIBUTE + 64


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("device.driver.split('.').join('-') == 'a'", id="the parts of a split text"),
        pytest.param("['a', 'b'].isSorted()", id="the texts of a list"),
        pytest.param("type(1) == int", id="types"),
        pytest.param("lists.range(int(device.driver)) == []", id="a range of a computed length"),
    ],
)
def test_what_nothing_is_known_of_costs_more_than_any_budget(source: str) -> None:
    assert _cost(source) > _BEYOND_EVERY_LIMIT


def test_the_estimate_ends_at_the_largest_number() -> None:
    assert _cost("lists.range(int(device.driver)).all(a, lists.range(a).all(b, lists.range(b).all(c, c > 0)))") == MOST


# the arithmetic

_NUMBERS = st.one_of(st.integers(0, 1000), st.integers(MOST - 1000, MOST))
_INTERVALS = st.tuples(_NUMBERS, _NUMBERS).map(lambda pair: Interval(min(pair), max(pair)))


@given(_INTERVALS, _INTERVALS)
@settings(max_examples=100, deadline=None)
def test_sums_and_products_are_those_of_the_bounds_up_to_the_largest_number(one: Interval, other: Interval) -> None:
    assert one.plus(other) == Interval(min(one.least + other.least, MOST), min(one.most + other.most, MOST))
    assert one.times(other) == Interval(min(one.least * other.least, MOST), min(one.most * other.most, MOST))
    assert one.plus(ZERO) == one.times(ONE) == one


@given(_INTERVALS, _INTERVALS)
@settings(max_examples=100, deadline=None)
def test_a_union_holds_both(one: Interval, other: Interval) -> None:
    union = one.union(other)
    assert union == other.union(one)
    assert union.least <= min(one.least, other.least) <= max(one.most, other.most) <= union.most


@pytest.mark.parametrize(
    ("size", "factor", "scaled"), [(0, 0.1, 0), (1, 0.1, 1), (10, 0.1, 1), (11, 0.1, 2), (3, 0.25, 1), (5, 2, 10)]
)
def test_a_scaled_size_is_rounded_up(size: int, factor: float, scaled: int) -> None:
    assert exactly(size).scaled(factor) == exactly(scaled)


def test_what_is_unknown_stays_at_the_largest_number() -> None:
    assert UNKNOWN.scaled(2) == UNKNOWN
    assert add(UNKNOWN, UNKNOWN, ONE) == Interval(1, MOST)
    assert add() == ZERO
