"""What is refused although all types are right: literals of times and patterns, and formats."""

from __future__ import annotations

import pytest

from driver.cel import SelectorError, compile_selector


def _faults(source: str) -> list[tuple[int, str]]:
    with pytest.raises(SelectorError) as caught:
        compile_selector(source)
    return [(span.start, text) for span, text in caught.value.faults]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        pytest.param("duration('1x') > duration('1s')", (9, "'1x' is no duration such as 1h30m"), id="duration"),
        pytest.param("timestamp('x') > timestamp(0)", (10, "'x' is no timestamp such as 2024-05-01T12:00:00Z"), id="timestamp"),
        pytest.param("device.driver.matches('(')", (22, "'(' is no regular expression of RE2"), id="pattern"),
        pytest.param(
            "matches('(', device.driver)", (8, "'(' is no regular expression of RE2"), id="text of the function matches"
        ),
    ],
)
def test_a_literal_that_cannot_be_read_is_refused_at_once(source: str, fault: tuple[int, str]) -> None:
    assert _faults(source) == [fault]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("duration(device.driver) == duration('1s')", id="a duration that comes from the device"),
        pytest.param("duration('1' + 'x') == duration('1s')", id="a duration that is put together"),
        pytest.param("device.driver.matches('(' + ')')", id="a pattern that is put together"),
        pytest.param("'%s'.format([[1, 'a']]) == ''", id="mixed elements in the arguments of a format"),
        pytest.param("'%s'.format([{1: 1, 'a': 'a'}]) == ''", id="mixed entries in the arguments of a format"),
    ],
)
def test_what_only_the_evaluation_can_tell_compiles(source: str) -> None:
    compile_selector(source)


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        pytest.param("'%d'.format([])", (11, "the format has no argument 0"), id="no argument"),
        pytest.param("'%d%s'.format([1])", (13, "the format has no argument 1"), id="one argument too few"),
        pytest.param("'%d'.format([1, 2])", (11, "the format takes 1 arguments, and is given 2"), id="one argument too many"),
        pytest.param("'%%'.format([1])", (11, "the format takes 0 arguments, and is given 1"), id="a percent sign takes none"),
        pytest.param(
            "'%q'.format([1])", (0, "'%q' is no clause of a format; there are %s %d %f %e %b %x %X %o"), id="unknown clause"
        ),
        pytest.param("'%d'.format(['a'])", (13, "%d cannot format a value of type string"), id="%d of a text"),
        pytest.param("'%d'.format([1.5])", (13, "%d cannot format a value of type double"), id="%d of a double"),
        pytest.param("'%f'.format([1])", (13, "%f cannot format a value of type int"), id="%f of an integer"),
        pytest.param("'%e'.format([true])", (13, "%e cannot format a value of type bool"), id="%e of a bool"),
        pytest.param("'%b'.format(['a'])", (13, "%b cannot format a value of type string"), id="%b of a text"),
        pytest.param("'%x'.format([1.5])", (13, "%x cannot format a value of type double"), id="%x of a double"),
        pytest.param("'%o'.format([b'a'])", (13, "%o cannot format a value of type bytes"), id="%o of bytes"),
        pytest.param(
            "'%s'.format([device])", (13, "%s cannot format a value of type kubernetes.DRADevice"), id="%s of a device"
        ),
        pytest.param(
            "'%s'.format([[device]])", (14, "%s cannot format a value of type kubernetes.DRADevice"), id="%s of a list"
        ),
        pytest.param(
            "'%s'.format([{'a': device}])", (19, "%s cannot format a value of type kubernetes.DRADevice"), id="%s of a map"
        ),
    ],
)
def test_a_format_and_its_arguments_have_to_go_together(source: str, fault: tuple[int, str]) -> None:
    assert _faults(f"{source} == ''") == [fault]


@pytest.mark.parametrize("verb", list("sdbxXo"))
def test_a_value_of_any_type_goes_with_every_clause(verb: str) -> None:
    compile_selector(f"'%{verb}'.format([dyn(1)]) == ''")


def test_a_format_or_arguments_that_are_no_literals_are_not_looked_at() -> None:
    compile_selector("device.driver.format([1]) == '' && '%d'.format([1].map(x, x)) == ''")


def test_all_wrong_literals_are_told() -> None:
    assert [start for start, _ in _faults("duration('x') == duration('y') && 'a'.matches('[')")] == [9, 26, 46]
