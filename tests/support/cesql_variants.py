"""Variants of our CESQL engine, each with single rules read differently, that reproduce answers of
other engines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from itertools import combinations
from unittest.mock import patch

from app.event.value import CloudEvent
from app.filters.cesql import compiler
from app.filters.cesql.compiler import Evaluator, compile_node
from app.filters.cesql.expression import evaluated
from app.filters.cesql.functions import FUNCTIONS, find
from app.filters.cesql.nodes import Call, ExpressionNode, In, Logic
from app.filters.cesql.parser import parse
from app.filters.cesql.values import CASTS, MOST, Failure, Value, cast
from cesql_table import Case, Outcome, event_of

VARIANTS: Mapping[str, str] = {
    "right-leaning": "AND, OR and XOR side by side are taken from right to left",
    "wrapping": "what 32 bits cannot hold is wrapped around",
    "first-match": "IN evaluates and casts one element after another, up to the first that is equal",
    "cast-in-turn": "each argument of a function is cast before the next one is evaluated",
    "long-substring": "SUBSTRING fails where position and length together are beyond 32 bits",
    "zero-position": "SUBSTRING from position 0 is empty whatever the length",
}


def explaining(case: Case, theirs: Outcome) -> tuple[str, ...]:
    """Return the fewest variants that together give the other engine's answer, or an empty tuple
    if none do.
    """
    event = event_of(case.event)
    for count in range(1, len(VARIANTS) + 1):
        for names in combinations(VARIANTS, count):
            if _same(_outcome(case.expression, event, names), theirs):
                return names
    return ()


def _same(one: Outcome, other: Outcome) -> bool:
    if one.errors or other.errors:
        return one.errors == other.errors
    return one == other


def _outcome(expression: str, event: CloudEvent, names: tuple[str, ...]) -> Outcome:
    tree = parse(expression)
    if "right-leaning" in names:
        tree = _leaning(tree)
    with ExitStack() as patched:
        if "wrapping" in names:
            patched.enter_context(_patched("checked_integer", _wrapped))
        if "first-match" in names:
            patched.enter_context(_patched("_in", _first_match))
        if "cast-in-turn" in names:
            patched.enter_context(_patched("_call", _cast_in_turn))
        if "long-substring" in names:
            patched.enter_context(patch.dict(FUNCTIONS, SUBSTRING=_LONG_SUBSTRING))
        if "zero-position" in names:
            patched.enter_context(patch.dict(FUNCTIONS, SUBSTRING=_ZERO_SUBSTRING))
        result = evaluated(tree, event)
    return Outcome(result.value, tuple(error.kind for error in result.errors))


@contextmanager
def _patched(name: str, function: Callable[..., object]) -> Iterator[None]:
    with patch.object(compiler, name, function):
        yield


def _leaning(node: ExpressionNode) -> ExpressionNode:
    changed = {each.name: _changed(getattr(node, each.name)) for each in fields(node)}
    del changed["depth"]
    new = replace(node, **changed)
    if isinstance(new, Logic) and len(new.operators) > 1:
        rest = _leaning(Logic(new.operands[1:], new.operators[1:]))
        return Logic((new.operands[0], rest), new.operators[:1])
    return new


def _changed(value: object) -> object:
    if isinstance(value, ExpressionNode):
        return _leaning(value)
    if isinstance(value, tuple):
        return tuple(map(_changed, value))
    return value


def _wrapped(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def _first_match(node: In) -> Evaluator[bool]:
    wanted, elements = compile_node(node.operand), [compile_node(each) for each in node.elements]

    def search(event: CloudEvent) -> bool:
        value = wanted(event)
        found = any(CASTS[value.__class__](element(event)) == value for element in elements)
        return found is not node.negated

    return search


def _cast_in_turn(node: Call) -> Evaluator[Value]:
    function = find(node.name, len(node.arguments))
    if function is None:
        return compiler._no_function(node)
    pairs = list(
        zip(map(compile_node, node.arguments), function.types(len(node.arguments)), strict=True)
    )

    def call(event: CloudEvent) -> Value:
        return function.body(
            *[cast(argument(event), kind) if kind else argument(event) for argument, kind in pairs]
        )

    return call


def _failing_substring(text: str, position: int, count: int) -> str:
    start = position - 1 if position > 0 else len(text) + position
    if 0 < abs(position) <= len(text) and start + count > MOST:
        raise Failure("functionEvaluation", "beyond 32 bits")
    return _THREE.body(text, position, count)


_TWO, _THREE = FUNCTIONS["SUBSTRING"]
_LONG_SUBSTRING = (_TWO, _THREE._replace(body=_failing_substring))


def _zero_substring(text: str, position: int, count: int) -> str:
    return "" if position == 0 else _THREE.body(text, position, count)


_ZERO_SUBSTRING = (_TWO, _THREE._replace(body=_zero_substring))
