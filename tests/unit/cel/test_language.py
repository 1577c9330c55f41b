"""Operators, literals, macros and the device, by example."""

from __future__ import annotations

import pytest

from tests.unit.cel.engine import answer, is_compile_error, is_evaluation_error

_TRUE = [
    'device.driver == "gpu.nvidia.com"',
    'device.attributes["gpu.nvidia.com"].index == 3',
    'device.attributes["gpu.nvidia.com"].index < 3.5',
    'device.attributes["gpu.nvidia.com"].productName.startsWith("NVIDIA H100")',
    'device.attributes["gpu.nvidia.com"].productName.matches("^NVIDIA .*HBM[0-9]$")',
    'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"',
    '!has(device.attributes["gpu.nvidia.com"].nothing)',
    '!("nothing" in device.attributes["gpu.nvidia.com"])',
    'device.attributes["unknown.example.com"] == {}',
    'device.attributes["gpu.nvidia.com"].?nothing.orValue(7) == 7',
    'device.attributes["gpu.nvidia.com"].driverVersion.isGreaterThan(semver("550.0.0"))',
    'device.attributes["gpu.nvidia.com"].driverVersion.major() == 560',
    'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) > 0',
    'device.capacity["gpu.nvidia.com"].memory == quantity("81920Mi")',
    "device.allowMultipleAllocations",
    '1 in device.attributes["gpu.nvidia.com"].numbers',
    'device.attributes["gpu.nvidia.com"].numbers.includes(2)',
    'device.attributes["gpu.nvidia.com"].index.includes(3)',
    'cel.bind(a, device.attributes["gpu.nvidia.com"], a.index == 3 && !a.mig)',
    "true || 1 / 0 == 1",
    "1 / 0 == 1 || true",
    "!(1 / 0 == 1 && false)",
    "true ? true : 1 / 0 == 1",
    "0x10 == 16 && 1u < 2 && dyn(1) == 1.0 && -1 < 1u",
    "-7 / 2 == -3 && -7 % 2 == -1",
    r"'\u00e9' == 'é' && '\101' == 'A' && r'\n' == '\\n'",
    "b'\\xff'.size() == 1 && b'é'.size() == 2 && 'é'.size() == 1",
    "'''a\"b''' == 'a\"b'",
    "[1, 2, 3].all(x, x > 0) && [1, 2].exists(x, x == 2) && [1, 2].exists_one(x, x == 2)",
    "[1, 2, 3].filter(x, x > 1).map(x, x * 2) == [4, 6]",
    "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
    "[5, 6].all(i, v, v == i + 5)",
    "{'a': 1}.exists(k, v, k == 'a' && v == 1)",
    "[1, 2].transformList(i, v, i + v) == [1, 3]",
    "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
    "{'a': 1}.transformMapEntry(k, v, {v: k}) == {1: 'a'}",
    "optional.of(1).hasValue() && !optional.none().hasValue()",
    "optional.ofNonZeroValue(0).or(optional.of(2)).value() == 2",
    "optional.of(2).optMap(x, x + 1).value() == 3",
    "[?optional.none(), 1] == [1] && {?'a': optional.none()} == {}",
    "[1][?4].orValue(9) == 9",
    "type(1) == int && type(quantity('1')) != type('1')",
    "sets.contains([1, 2], [2]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 1], [1])",
    "[3, 1, 2].sort() == [1, 2, 3] && [1, 1].distinct() == [1] && lists.range(2) == [0, 1]",
    "[[1], [2]].flatten() == [1, 2] && [1, 2, 3].slice(1, 2) == [2] && [1, 2].reverse() == [2, 1]",
    "[1, 2].sum() == 3 && [1, 2].max() == 2 && [1, 2].isSorted() && [1, 2].indexOf(2) == 1",
    "'a-b'.split('-') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b'",
    "'%s %d %.1f %x'.format(['a', 1, 1.5, 255]) == 'a 1 1.5 ff'",
    "'abc1'.find('[0-9]') == '1' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
    "url('https://example.com:80/a?b=c').getPort() == '80' && isURL('https://a/')",
    "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.2.3')",
    "format.dns1123Label().validate('a-b') == optional.none()",
    "duration('90s').getMinutes() == 1 && timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026",
    "isQuantity('1Gi') && !isQuantity('x') && isSemver('1.2.3') && semver('v1.2', true) == semver('1.2.0')",
]


@pytest.mark.parametrize("source", _TRUE)
def test_it_is_true(source: str) -> None:
    assert answer(source) is True


@pytest.mark.parametrize(
    "source",
    [
        "",
        "   ",
        "device.nothing",
        "devices.driver == ''",
        "device.driver == 1",
        "'a'",
        "1",
        "device.attributes",
        "[1, 'a'] == []",
        "{'a': 1, 'b': 'c'} == {}",
        "1 == 1.0",
        "'a'.matches('(')",
        "duration('1x') == duration('1s')",
        "1 + 'a' == 2",
        "!1",
        "true && 1",
        "9223372036854775808 > 0",
        "1u + 1 == 2u",
        "'\\q' == ''",
        "has(device)",
        "[1].all(device.driver, true)",
        "[1].all(1, true)",
        "nothing()",
        "'a'.nothing()",
        "for == 1",
        "true ? 1 : 'a'",
        "'a' 'b'",
        "'unfinished",
        "// only a comment",
        "a.b.c{}",
        "device.attributes['gpu.nvidia.com'].index.includes()",
        "\x00",
    ],
)
def test_it_does_not_compile(source: str) -> None:
    assert is_compile_error(source)


@pytest.mark.parametrize(
    "source",
    [
        'device.attributes["gpu.nvidia.com"].nothing == 1',
        'device.attributes["unknown.example.com"].index == 1',
        'device.capacity["gpu.nvidia.com"].nothing == quantity("1")',
        'device.attributes["gpu.nvidia.com"].productName < 1',
        "1 / 0 == 1",
        "1 % 0 == 1",
        "9223372036854775807 + 1 > 0",
        "[1][1] == 1",
        "{'a': 1}['b'] == 1",
        "dyn(1) ? true : false",
        "dyn(1) && true",
        "quantity('x') == quantity('1')",
        "semver('1') == semver('1.0.0')",
        "optional.none().value() == 1",
        "int('x') == 1",
        "ip('x') == ip('1.1.1.1')",
        "'abc'.substring(4) == ''",
        "'%d'.format([dyn('a')]) == ''",
        "lists.range(-1) == []",
    ],
)
def test_it_fails_on_the_device(source: str) -> None:
    assert is_evaluation_error(source) or is_compile_error(source)


def test_a_false_term_hides_a_failing_one() -> None:
    assert answer('false && device.attributes["gpu.nvidia.com"].nothing == 1') is False
    assert answer('device.attributes["gpu.nvidia.com"].nothing == 1 && false') is False
    assert is_evaluation_error('device.attributes["gpu.nvidia.com"].nothing == 1 && true')


@pytest.mark.parametrize(
    "source",
    [
        "[3, 1].min() == 1 && [3.5, 1.5].max() == 3.5",
        "[duration('1s'), duration('2s')].sum() == duration('3s')",
        "[1.5, 2.5].sum() == 4.0 && [1u, 2u].sum() == 3u",
        "['b', 'a'].sortBy(x, x) == ['a', 'b'] && [{'a': 2}, {'a': 1}].sortBy(x, x.a)[0].a == 1",
        "![2, 1].isSorted() && [true, false].sort() == [false, true]",
        "[1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(5) == -1",
        "timestamp('2026-01-01T00:00:00Z') + duration('1h') > timestamp('2026-01-01T00:30:00Z')",
        "timestamp('2026-01-02T00:00:00Z') - timestamp('2026-01-01T00:00:00Z') == duration('24h')",
        "timestamp('2026-01-01T23:30:00Z').getHours('+01:00') == 0",
        "string(1.0) == '1' && string(1e30) == '1e+30' && string(b'a') == 'a' && string(true) == 'true'",
        "int('12') == 12 && int(1.9) == 1 && uint('3') == 3u && double('1e3') == 1000.0 && bool('t')",
        "-(1) == -1 && -(1.5) == -1.5",
        "'b' > 'a' && b'b' > b'a' && true > false",
        "b'a' + b'b' == b'ab' && [1] + [2] == [1, 2] && 'a' + 'b' == 'ab'",
        "'hello'.replace('l', 'L', 1) == 'heLlo' && 'abc'.charAt(3) == '' && ' a '.trim() == 'a'",
        "'tacocat'.lastIndexOf('c') == 4 && 'a'.upperAscii() == 'A' && strings.quote('a') == '\"a\"'",
        "ip('::1').isLoopback() && ip.isCanonical('::1') && string(ip('10.0.0.1')) == '10.0.0.1'",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8",
        "quantity('1').add(1) == quantity('2') && quantity('3').sub(quantity('1')).asInteger() == 2",
        "sign(quantity('-1')) == -1",
        "null == null && type(null) == null_type",
    ],
)
def test_functions(source: str) -> None:
    assert answer(source) is True


@pytest.mark.parametrize(
    "source",
    [
        "[].min() == 1",
        "[dyn(1), dyn('a')].sort() == []",
        "-9223372036854775808 - 1 < 0",
        "9223372036854775807 * 2 > 0",
        "1u - 2u == 1u",
        "-9223372036854775808 / -1 > 0",
        "timestamp('9999-12-31T23:59:59Z') + duration('24h') > timestamp(0)",
        "timestamp(0).getHours('Nowhere/AtAll') == 1",
        "quantity('1.5').asInteger() == 1",
        "[1].slice(0, 5) == [1]",
        "'abc'.charAt(9) == ''",
        "[1][-1] == 1",
        "[dyn('a')].all(x, x > 1)",
    ],
)
def test_functions_that_fail(source: str) -> None:
    assert is_evaluation_error(source)


@pytest.mark.parametrize(
    "source", ["int(1e30) == 1", "bool('x')", "string(b'\\xff') == ''", "uint(-1) == 1u", "double('x') == 1.0"]
)
def test_a_constant_that_cannot_be_converted_does_not_compile(source: str) -> None:
    assert is_compile_error(source)


@pytest.mark.parametrize(
    "source", ["int(device.driver) == 1", "bool(device.driver)", "[1e30].map(x, int(x)) == [1]", "[-1].map(x, uint(x)) == [1u]"]
)
def test_a_value_that_cannot_be_converted_fails(source: str) -> None:
    assert is_evaluation_error(source)
