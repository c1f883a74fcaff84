"""A tree as one closure over the event. All that can be decided without an event is decided here.

Operands are evaluated before any of them is cast, so that a missing attribute is told as such
(CESQL 3.2), not as a cast that failed on another operand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from app.event.value import AttributeType, CloudEvent
from app.filters.cesql import nodes
from app.filters.cesql.arithmetic import ARITHMETIC, ORDERS, exactly, within
from app.filters.cesql.conditions import Casts, all_of, any_of, as_set, constant_sets, in_turn
from app.filters.cesql.data import compile_data, compile_existence
from app.filters.cesql.decimals import negative
from app.filters.cesql.functions import Function, absent
from app.filters.cesql.like import compile_like
from app.filters.cesql.static_type import function_of, is_decimal, returns
from app.filters.cesql.values import (
    CASTS,
    DECIMAL_CASTS,
    Failure,
    Value,
    to_boolean,
    to_decimal,
    to_integer,
    to_text,
)

T = TypeVar("T")
_NO_EVENT = CloudEvent({})
Evaluator = Callable[[CloudEvent], T]
"""Raises Failure where the evaluation ends with an error."""


def compiled(node: nodes.ExpressionNode) -> Evaluator[Value]:
    match node:
        case nodes.Constant():
            return _constant(node.value)
        case nodes.Attribute():
            return _attribute(node.name)
        case nodes.Call():
            return _call(node)
        case nodes.Data():
            return compile_existence(node.pointer) if node.existence else compile_data(node.pointer)
        case nodes.Negate():
            return _negate(node)
        case nodes.Binary() if node.operator in ARITHMETIC:
            return _arithmetic(node)
    return _predicate(node)


def boolean(node: nodes.ExpressionNode) -> Evaluator[bool]:
    """As ``compiled``, cast to Boolean."""
    value = compiled(node)
    if returns(node) is bool:
        return cast("Evaluator[bool]", value)
    return lambda event: to_boolean(value(event))


def _predicate(node: nodes.ExpressionNode) -> Evaluator[bool]:
    match node:
        case nodes.Exists():
            name = node.name
            return lambda event: name in event.attributes
        case nodes.Not():
            operand = boolean(node.operand)
            return lambda event: not operand(event)
        case nodes.Like():
            return _like(node)
        case nodes.In():
            return _in(node)
        case nodes.Binary():
            return _equality(node) if node.operator in {"=", "!="} else _order(node)
        case nodes.Logic():
            return _logic(node)
    raise AssertionError(node)


def _constant(value: Value) -> Evaluator[Value]:
    return lambda _event: value


_TYPED: Mapping[AttributeType, Callable[[Value], Value]] = {
    AttributeType.INTEGER: to_integer,
    AttributeType.BOOLEAN: to_boolean,
}


def _missing(name: str) -> str:
    return f"the event has no {name}"


def _attribute(name: str) -> Evaluator[Value]:
    message = _missing(name)

    def read(event: CloudEvent) -> Value:
        text = event.attributes.get(name)
        if text is None:
            raise Failure("missingAttribute", message)
        if event.types and (typed := _TYPED.get(event.types.get(name, AttributeType.STRING))):
            return typed(text)
        return text

    return read


def _text(node: nodes.ExpressionNode) -> Evaluator[str]:
    """As ``compiled``, cast to String. Canonical text is what the cast of an attribute gives."""
    if not isinstance(node, nodes.Attribute):
        value = compiled(node)
        return lambda event: to_text(value(event))
    name, message = node.name, _missing(node.name)

    def read(event: CloudEvent) -> str:
        text = event.attributes.get(name)
        if text is None:
            raise Failure("missingAttribute", message)
        return text

    return read


def _negate(node: nodes.Negate) -> Evaluator[Value]:
    operand = compiled(node.operand)
    if is_decimal(node):
        return lambda event: negative(to_decimal(operand(event)))
    return lambda event: within(-to_integer(operand(event)))


def _arithmetic(node: nodes.Binary) -> Evaluator[Value]:
    if is_decimal(node):
        return _exact(node)
    left, right, apply = compiled(node.left), compiled(node.right), ARITHMETIC[node.operator]

    def calculate(event: CloudEvent) -> int:
        x, y = left(event), right(event)
        return within(apply(to_integer(x), to_integer(y)))

    return calculate


def _exact(node: nodes.Binary) -> Evaluator[Value]:
    left, right, sign = compiled(node.left), compiled(node.right), node.operator

    def calculate(event: CloudEvent) -> Value:
        x, y = left(event), right(event)
        return exactly(sign, to_decimal(x), to_decimal(y))

    return calculate


def _order(node: nodes.Binary) -> Evaluator[bool]:
    left, right, holds = compiled(node.left), compiled(node.right), ORDERS[node.operator]
    number = to_decimal if is_decimal(node.left, node.right) else to_integer

    def compare(event: CloudEvent) -> bool:
        x, y = left(event), right(event)
        return holds(number(x), number(y))

    return compare


def _equality(node: nodes.Binary) -> Evaluator[bool]:
    """The right operand's type decides what the left one is cast to (CESQL 3.7)."""
    same = node.operator == "="
    if isinstance(node.right, nodes.Constant) and isinstance(node.right.value, str):
        return _equals_text(_text(node.left), node.right.value, same)
    left, right = compiled(node.left), compiled(node.right)
    casts = _casts(node.left, node.right)

    def compare(event: CloudEvent) -> bool:
        x, y = left(event), right(event)
        if x.__class__ is not y.__class__:
            x = casts[y.__class__](x)
        return (x == y) is same

    return compare


def _casts(*operands: nodes.ExpressionNode) -> Casts:
    return DECIMAL_CASTS if is_decimal(*operands) else CASTS


def _equals_text(left: Evaluator[str], text: str, same: bool) -> Evaluator[bool]:
    if same:
        return lambda event: left(event) == text
    return lambda event: left(event) != text


def _like(node: nodes.Like) -> Evaluator[bool]:
    value, matches = _text(node.operand), compile_like(node.pattern)
    if node.negated:
        return lambda event: not matches(value(event))
    return lambda event: matches(value(event))


def _in(node: nodes.In) -> Evaluator[bool]:
    """The elements are cast to the type of what is looked for (CESQL 3.7)."""
    wanted, inside = compiled(node.operand), not node.negated
    casts = _casts(node.operand, *node.elements)
    if all(isinstance(each, nodes.Constant) for each in node.elements):
        holds = constant_sets([cast("nodes.Constant", each).value for each in node.elements], casts)
        return lambda event: holds(wanted(event)) is inside
    elements = [compiled(each) for each in node.elements]

    def search(event: CloudEvent) -> bool:
        value = wanted(event)
        found = [element(event) for element in elements]
        return (value in as_set(found, value.__class__, casts)) is inside

    return search


def _logic(node: nodes.Logic) -> Evaluator[bool]:
    words = set(node.operators)
    if words == {"AND"}:
        return all_of([boolean(each) for each in node.operands])
    if words == {"OR"}:
        return any_of([boolean(each) for each in node.operands])
    return _mixed(node)


def _mixed(node: nodes.Logic) -> Evaluator[bool]:
    """From left to right (CESQL 3.6)."""
    first, pairs = (
        boolean(node.operands[0]),
        list(zip(node.operators, node.operands[1:], strict=True)),
    )
    if node.operators[0] == "XOR":
        first = _exclusive(node.operands[0], pairs.pop(0)[1])
    return in_turn(first, [(word, boolean(operand)) for word, operand in pairs])


def _exclusive(one: nodes.ExpressionNode, other: nodes.ExpressionNode) -> Evaluator[bool]:
    left, right = compiled(one), compiled(other)

    def evaluate(event: CloudEvent) -> bool:
        x, y = left(event), right(event)
        return to_boolean(x) is not to_boolean(y)

    return evaluate


def _call(node: nodes.Call) -> Evaluator[Value]:
    function = function_of(node)
    if function is None:
        return _no_function(node)
    if node.arguments and all(isinstance(each, nodes.Constant) for each in node.arguments):
        return _decided(_called(node, function))
    return _called(node, function)


def _decided(evaluate: Evaluator[Value]) -> Evaluator[Value]:
    """Of constants alone: functions are pure, so it is evaluated once."""
    try:
        return _constant(evaluate(_NO_EVENT))
    except Failure:
        return evaluate  # it fails for each event


def _called(node: nodes.Call, function: Function) -> Evaluator[Value]:
    arguments = [compiled(each) for each in node.arguments]
    if len(arguments) == 1 and function.parameters[:1] != (None,):
        return _unary_call(function, arguments[0])
    types = function.types(len(arguments))

    def call(event: CloudEvent) -> Value:
        values = [argument(event) for argument in arguments]
        found: Value = function.body(
            *[v if t is None else CASTS[t](v) for v, t in zip(values, types, strict=True)]
        )
        return found

    return call


def _unary_call(function: Function, argument: Evaluator[Value]) -> Evaluator[Value]:
    (target,), body = function.types(1), function.body
    casting = CASTS[target] if target else to_text

    def call(event: CloudEvent) -> Value:
        found: Value = body(casting(argument(event)))
        return found

    return call


def _no_function(node: nodes.Call) -> Evaluator[Value]:
    message = absent(node.name, len(node.arguments))

    def fail(_event: CloudEvent) -> Value:
        raise Failure("missingFunction", message)

    return fail
