"""What a selector that does not parse is answered with: where, and what is wrong there."""

from __future__ import annotations

import pytest

from driver.cel.errors import SelectorError
from driver.cel.parser import parse


def _fault(source: str) -> str:
    with pytest.raises(SelectorError) as caught:
        parse(source)
    assert len(caught.value.faults) == 1
    return str(caught.value).split("\n", 1)[0]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        pytest.param("", "1:1: the selector ends too early", id="nothing"),
        pytest.param("// why", "1:7: the selector ends too early", id="only a comment"),
        pytest.param("a &&", "1:5: the selector ends too early", id="no right side"),
        pytest.param("a in", "1:5: the selector ends too early", id="nothing to look in"),
        pytest.param("!", "1:2: the selector ends too early", id="nothing to deny"),
        pytest.param("f(", "1:3: the selector ends too early", id="open call"),
        pytest.param("[1,\n", "2:1: the selector ends too early", id="open list over two lines"),
        pytest.param("(a", "1:3: ')' is missing before the end", id="open bracket"),
        pytest.param("f(1", "1:4: ')' is missing before the end", id="open arguments"),
        pytest.param("a[1", "1:4: ']' is missing before the end", id="open index"),
        pytest.param("[1 2]", "1:4: ']' is missing before '2'", id="no comma in a list"),
        pytest.param("[,1]", "1:3: ']' is missing before '1'", id="a comma and more"),
        pytest.param("{1:2", "1:5: '}' is missing before the end", id="open map"),
        pytest.param("{1 2}", "1:4: ':' is missing before '2'", id="no colon in a map"),
        pytest.param("a ? b", "1:6: ':' is missing before the end", id="half a condition"),
        pytest.param("a ? : b", "1:5: ':' does not belong here", id="condition without a yes"),
        pytest.param("x{a", "1:4: ':' is missing before the end", id="field without a value"),
    ],
)
def test_what_is_missing_is_named(source: str, fault: str) -> None:
    assert _fault(source) == fault


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        pytest.param("&& a", "1:1: '&&' does not belong here", id="no left side"),
        pytest.param("a)", "1:2: ')' does not belong here", id="bracket without an opener"),
        pytest.param("a b", "1:3: 'b' does not belong here", id="two values"),
        pytest.param("a == == b", "1:6: '==' does not belong here", id="operator twice"),
        pytest.param("a not in b", "1:3: 'not' does not belong here", id="a word of another language"),
        pytest.param("f(1,,2)", "1:5: ',' does not belong here", id="comma twice"),
        pytest.param("f(,)", "1:3: ',' does not belong here", id="only a comma in a call"),
        pytest.param("+1", "1:1: '+' does not belong here", id="plus sign of a number"),
        pytest.param("a.1", "1:2: '.1' does not belong here", id="number as a field"),
        pytest.param("a.`b`()", "1:6: '(' does not belong here", id="quoted method"),
        pytest.param("a.?b()", "1:5: '(' does not belong here", id="optional method"),
        pytest.param("`a`", "1:1: '`a`' does not belong here", id="quoted variable"),
        pytest.param("a.", "1:3: the end is no field name", id="dot at the end"),
        pytest.param("a..b", "1:3: '.' is no field name", id="dot twice"),
        pytest.param("a.?1", "1:4: '1' is no field name", id="number as an optional field"),
        pytest.param("a.true", "1:3: 'true' is no field name", id="literal as a field"),
        pytest.param("a.in", "1:3: 'in' is no field name", id="keyword as a field"),
        pytest.param("x{1: 2}", "1:3: '1' is no field name", id="number as a field of a message"),
        pytest.param(".", "1:2: a name is missing before the end", id="only a dot"),
        pytest.param("..a", "1:2: a name is missing before '.'", id="two dots before a name"),
        pytest.param("a\n\n  && )", "3:6: ')' does not belong here", id="in the third line"),
        pytest.param("a // b\n c", "2:2: 'c' does not belong here", id="after a comment"),
    ],
)
def test_what_cannot_stand_somewhere_is_named(source: str, fault: str) -> None:
    assert _fault(source) == fault


@pytest.mark.parametrize(
    "word",
    [
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"),
        *("package", "namespace", "return", "var", "void", "while"),
    ],
)
def test_a_reserved_word_is_no_variable_and_no_function_but_may_be_a_field(word: str) -> None:
    assert _fault(f"  {word} == 1") == f"1:3: {word!r} is a reserved word"
    assert _fault(f"{word}(1)") == f"1:1: {word!r} is a reserved word"
    parse(f"a.{word} && a.{word}(1)")


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        pytest.param("1 < 9223372036854775808", "1:5: the integer does not fit into 64 bits", id="one above the largest int"),
        pytest.param("-9223372036854775809", "1:1: the integer does not fit into 64 bits", id="one below the smallest int"),
        pytest.param("0x8000000000000000", "1:1: the integer does not fit into 64 bits", id="hexadecimal int"),
        pytest.param(
            "18446744073709551616u", "1:1: the unsigned integer does not fit into 64 bits", id="one above the largest uint"
        ),
        pytest.param("1e400", "1:1: the number is beyond the largest double", id="double"),
        pytest.param(r"'\ud800'", "1:1: an escape stands for no Unicode character", id="half a character"),
        pytest.param(r"'\U00110000'", "1:1: an escape stands for no Unicode character", id="beyond Unicode"),
        pytest.param(r"b'\u0041'", r"1:1: bytes have no \u and \U escapes", id="character in bytes"),
    ],
)
def test_a_literal_that_stands_for_no_value_is_told_at_its_beginning(source: str, fault: str) -> None:
    assert _fault(source) == fault


@pytest.mark.parametrize(
    "source", ["-9223372036854775808", "0x7fffffffffffffff", "18446744073709551615u", "1.7976931348623157e308"]
)
def test_the_largest_and_smallest_literals_are_taken(source: str) -> None:
    parse(source)


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        pytest.param("has(a)", "1:5: has() takes a field selection such as has(a.b)", id="has of a name"),
        pytest.param("has(a[1])", "1:6: has() takes a field selection such as has(a.b)", id="has of an index"),
        pytest.param("has(a.b())", "1:8: has() takes a field selection such as has(a.b)", id="has of a call"),
        pytest.param("has(has(a.b))", "1:8: has() takes a field selection such as has(a.b)", id="has of has"),
        pytest.param("[1].all(1, true)", "1:9: the variable of a macro must be a simple name", id="number as a variable"),
        pytest.param("[1].map(a.b, 1)", "1:10: the variable of a macro must be a simple name", id="selection as a variable"),
        pytest.param("[1].filter('x', true)", "1:12: the variable of a macro must be a simple name", id="text as a variable"),
        pytest.param("[1].all(__result__, true)", "1:9: a macro's variable cannot be called __result__", id="taken name"),
        pytest.param("[1].all(x, x, true)", "1:12: the variable x is there twice", id="both variables the same"),
        pytest.param("{}.transformMap(k, k, 1)", "1:20: the variable k is there twice", id="key and value the same"),
        pytest.param("1.sortBy(x, x)", "1:1: sortBy() sorts a list", id="a number sorted"),
        pytest.param("cel.bind(1, 2, 3)", "1:10: the variable of cel.bind() must be a simple name", id="bind to a number"),
        pytest.param("a.optMap(1, 1)", "1:10: the variable of optMap() must be a simple name", id="optMap of a number"),
        pytest.param(
            "a.optFlatMap(b.c, 1)", "1:15: the variable of optFlatMap() must be a simple name", id="optFlatMap of a selection"
        ),
    ],
)
def test_a_macro_says_what_is_wrong_with_its_arguments(source: str, fault: str) -> None:
    assert _fault(source) == fault


@pytest.mark.parametrize("source", ["has()", "has(a.b, c)", "a.all(x)", "a.map(x, 1, 2, 3)", "all(x, true)", "bind(x, 1, x)"])
def test_with_another_number_of_arguments_it_is_no_macro_but_a_call(source: str) -> None:
    """The checker then says that there is no such function."""
    parse(source)


def test_nesting_beyond_the_limit_is_told() -> None:
    assert _fault("(" * 300 + "true" + ")" * 300) == "1:251: this is nested too deeply; at most 250 levels parse"


def test_a_tree_beyond_the_limit_is_told_although_no_bracket_nests() -> None:
    assert _fault("1" + "+1" * 251).endswith(": this is nested too deeply; at most 250 levels parse")


def test_copies_of_copies_end_before_they_fill_the_memory() -> None:
    nested = "a" + ".optMap(x, x)" * 40
    assert _fault(nested).endswith(": so many nested optMap() become a tree too large to compile")


@pytest.mark.parametrize(
    ("source", "span"),
    [
        pytest.param("a && && b", (5, 2), id="the token that is wrong"),
        pytest.param("a false", (2, 5), id="a word that is wrong"),
        pytest.param("a &&", (4, 1), id="the end"),
        pytest.param("for >= 1", (0, 1), id="a place and no token"),
    ],
)
def test_the_span_is_that_of_the_wrong_token(source: str, span: tuple[int, int]) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(source)
    assert (caught.value.span.start, caught.value.span.length) == span
