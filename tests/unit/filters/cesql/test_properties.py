"""CloudEvents SQL as a language: total, pure, bounded, and the same after it is written down again."""

from __future__ import annotations

import re
from decimal import Decimal, localcontext
from fractions import Fraction
from string import ascii_lowercase, digits
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.filters.cesql import nodes
from app.filters.cesql.expression import Expression
from app.filters.cesql.like import compile_like
from app.filters.cesql.parser import MAX_DEPTH, MAX_LENGTH, parse
from app.filters.cesql.printer import node_text
from app.filters.cesql.static_type import result_type
from app.filters.cesql.tokens import RESERVED, ParseError
from app.filters.cesql.values import LEAST, MOST, to_integer
from cesql_making import random_cases
from cesql_table import event_of

_ENDS = st.text(ascii_lowercase + digits, max_size=3)
NAMES = st.builds("{}{}{}".format, _ENDS, st.sampled_from(ascii_lowercase), _ENDS).filter(
    lambda name: name.upper() not in RESERVED
)
TEXTS = st.text(st.characters(exclude_characters="\\", codec="utf-8"), max_size=5)
VALUES = st.booleans() | st.integers(LEAST, MOST) | TEXTS
DECIMALS = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent),
    st.integers(-(10**12), 10**12),
    st.integers(-20, 20),
)
COMPARED: st.SearchStrategy[nodes.ExpressionNode] = st.builds(
    nodes.Binary,
    st.sampled_from(["=", "<", ">="]),
    st.just(nodes.Data("/n", False)),
    st.builds(nodes.Constant, DECIMALS),
)
LEAVES: st.SearchStrategy[nodes.ExpressionNode] = (
    st.builds(nodes.Constant, VALUES)
    | st.builds(nodes.Attribute, NAMES)
    | st.builds(nodes.Exists, NAMES)
    | st.builds(nodes.Data, st.just("/a/b~1c"), st.booleans())
    | COMPARED
)


def _logic(operands: list[nodes.ExpressionNode], words: list[str]) -> nodes.ExpressionNode:
    return nodes.Logic(tuple(operands), tuple(words[: len(operands) - 1]))


def _grown(
    inner: st.SearchStrategy[nodes.ExpressionNode],
) -> st.SearchStrategy[nodes.ExpressionNode]:
    several = st.lists(inner, min_size=1, max_size=3).map(tuple)
    signs = st.sampled_from(["+", "-", "*", "/", "%", "=", "!=", "<", "<=", ">", ">="])
    words = st.lists(st.sampled_from(["AND", "OR", "XOR"]), min_size=2, max_size=2)
    return (
        st.builds(nodes.Not, inner)
        | st.builds(nodes.Negate, inner)
        | st.builds(nodes.Like, inner, TEXTS, st.booleans())
        | st.builds(nodes.In, inner, several, st.booleans())
        | st.builds(nodes.Binary, signs, inner, inner)
        | st.builds(_logic, st.lists(inner, min_size=2, max_size=3), words)
        | st.builds(nodes.Call, st.sampled_from(["ABS", "LEFT", "NO_SUCH"]), several | st.just(()))
    )


TREES = st.recursive(LEAVES, _grown, max_leaves=12)
EVENTS = st.dictionaries(NAMES, VALUES, max_size=3)


@given(TREES)
def test_what_is_shown_of_a_tree_is_read_as_that_tree(tree: nodes.ExpressionNode) -> None:
    """Explanations and stored filters show expressions; brackets may not get lost."""
    assert parse(node_text(tree)) == tree


@given(TREES, EVENTS)
def test_every_expression_gives_a_value_of_its_type_and_never_raises(
    tree: nodes.ExpressionNode, attributes: dict[str, str | int | bool]
) -> None:
    """CESQL is total (1): one filter that raises would stop a whole subscription."""
    expression = Expression(node_text(tree))
    event = event_of(attributes, '{"n": 0.5, "a": {"b/c": 12.50}}')
    result = expression.evaluate(event)
    assert result.value.__class__ in {bool, int, str, Decimal}
    assert result_type(tree) in {None, result.value.__class__}
    if isinstance(result.value, int):
        assert LEAST <= result.value <= MOST
    assert expression.matches(event) is (result.value is True and not result.errors)


@given(TREES, EVENTS)
def test_an_evaluation_leaves_no_trace(
    tree: nodes.ExpressionNode, attributes: dict[str, str | int | bool]
) -> None:
    """CESQL is pure (1): the event stays, and the second answer is the first."""
    event, same = event_of(attributes), event_of(attributes)
    expression = Expression(node_text(tree))
    assert expression.evaluate(event) == expression.evaluate(event)
    assert event == same


@given(st.text(max_size=40) | st.text("()'\"\\ NOTINLIKEa1%,=-+", max_size=40))
@example("'" * 40)
@example("\x00")
@example("٣")
def test_any_text_is_an_expression_or_refused_with_a_place(text: str) -> None:
    """Whatever somebody sends as a filter, the answer says where and why."""
    refused = _refusal(text)
    if refused is None:
        Expression(text).evaluate(event_of({}))
    else:
        assert 0 <= refused.at <= len(text)
        assert re.match(r"SQL, character \d+: .+", str(refused))


def _refusal(text: str) -> ParseError | None:
    try:
        parse(text)
    except ParseError as error:
        return error
    return None


def test_expressions_by_chance_survive_being_shown() -> None:
    """Those that people would write, in any precedence."""
    for case in random_cases(2_000, seed=7):
        tree = parse(case.expression)
        assert parse(node_text(tree)) == tree


@given(st.text("ab%_\\.\n", max_size=8), st.text("ab%_.\\\n", max_size=8))
def test_like_means_what_its_definition_says(pattern: str, value: str) -> None:
    """The matcher takes short cuts; this is the definition written the slow way."""

    def holds(rest: str, text: str) -> bool:
        if not rest:
            return not text
        if rest[:2] in {"\\%", "\\_"}:
            return text[:1] == rest[1] and holds(rest[2:], text[1:])
        if rest[0] == "%":
            return any(holds(rest[1:], text[n:]) for n in range(len(text) + 1))
        return bool(text) and rest[0] in {"_", text[0]} and holds(rest[1:], text[1:])

    assert compile_like(pattern)(value) is holds(pattern, value)


@pytest.mark.parametrize(
    "pattern", ["%a" * 40 + "b", "%_a" * 30 + "b", "%" * 500 + "b", "%a_" * 40]
)
def test_no_pattern_takes_long(pattern: str) -> None:
    """A pattern that backs up without end would hold a worker for hours on one event."""
    matches = compile_like(pattern)
    before = process_time()
    matches("a" * 10_000)
    assert process_time() - before < 10


@pytest.mark.parametrize(
    ("left", "right"),
    [("(", ")"), ("NOT ", ""), ("- ", ""), ("ABS(", ")"), ("1 IN (", ")"), ("1 + (", ")")],
)
def test_nesting_has_a_bound_and_no_stack_ends_before_it(left: str, right: str) -> None:
    """A document that is all brackets is refused; what is not refused can be evaluated."""

    def nested(levels: int) -> str:
        return left * levels + "1" + right * levels

    levels = MAX_DEPTH // 2 - 1
    Expression(nested(levels)).evaluate(event_of({}))
    for many in (MAX_DEPTH + 1, 1000):
        with pytest.raises(ParseError, match="nested deeper than"):
            parse(nested(many))


@pytest.mark.parametrize("sign", ["+", "-", "=", "LIKE 'x' ="])
def test_chains_that_lean_count_as_nested(sign: str) -> None:
    """They are evaluated one within the other."""
    with pytest.raises(ParseError, match="nested deeper than"):
        parse(f" {sign} ".join(["1"] * 500))


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_any_number_of_conditions_stand_side_by_side(word: str) -> None:
    """People make lists of a hundred conditions."""
    text = f" {word} ".join(["id = 'A1'"] * 500)
    assert Expression(text).matches(event_of({}))


def test_length_has_a_bound() -> None:
    assert Expression("TRUE".ljust(MAX_LENGTH)).matches(event_of({}))
    with pytest.raises(ParseError, match="longer than 8192 characters"):
        parse("TRUE".ljust(MAX_LENGTH + 1))


@given(st.integers(-(10**12), 10**12))
def test_text_is_cast_to_the_integer_it_shows(number: int) -> None:
    """Within 32 bits (CESQL 3.7)."""
    result = Expression(f"INT('{number}')").evaluate(event_of({}))
    if LEAST <= number <= MOST:
        assert result == (number, ())
        assert to_integer(str(number)) == number
    else:
        assert (result.value, result.errors[0].kind) == (0, "cast")


@given(DECIMALS, DECIMALS | st.integers(LEAST, MOST), st.sampled_from("+-*/%"))
def test_decimals_are_exact_or_an_error(one: Decimal, other: Decimal | int, sign: str) -> None:
    """ADR 0027: nothing is rounded. An error is what 34 digits do not hold, the quotient of % included. Fractions say what
    is right."""
    document = f'{{"x": {one}, "y": {other}}}'
    result = Expression(f"DATA('/x') {sign} DATA('/y')").evaluate(event_of({}, document))
    expected = _calculated(Fraction(one), Fraction(other), sign)
    if result.errors:
        assert [each.kind for each in result.errors] == ["math"]
        far = sign == "%" and other != 0 and abs(Fraction(one) / Fraction(other)) >= 10**34
        assert far or expected is None or not _is_short(expected)
    else:
        assert isinstance(result.value, Decimal)
        assert Fraction(result.value) == expected


@given(DECIMALS, DECIMALS | st.integers(LEAST, MOST))
def test_decimals_are_compared_as_the_numbers_they_are(one: Decimal, other: Decimal | int) -> None:
    """ADR 0027: 250.0, 250 and 2.5e2 are one number, beside 250 and 250.00 alike."""
    event = event_of({}, f'{{"x": {one}, "y": {other}}}')
    x, y = Fraction(one), Fraction(other)
    for sign, expected in (("<", x < y), (">=", x >= y), ("=", x == y), ("!=", x != y)):
        assert Expression(f"DATA('/x') {sign} DATA('/y')").matches(event) is expected
        assert (
            Expression(
                node_text(nodes.Binary(sign, nodes.Data("/x", False), nodes.Constant(other)))
            ).matches(event)
            is expected
        )


def _calculated(x: Fraction, y: Fraction, sign: str) -> Fraction | None:
    if sign in "/%" and y == 0:
        return None
    match sign:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
        case "/":
            return x / y
    return x - y * (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)


def _is_short(number: Fraction) -> bool:
    """Whether 34 digits hold it."""
    with localcontext() as context:
        context.prec = 34
        return Fraction(Decimal(number.numerator) / Decimal(number.denominator)) == number
