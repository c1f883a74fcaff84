"""Compile an expression tree to one closure over the event. Decisions that need no event are made during
compilation.

All operands are evaluated before any of them is cast. So a missing attribute is reported as missing, not as a
failed cast (CESQL 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from app.event.value import AttributeType, CloudEvent
from app.filters.cesql import nodes
from app.filters.cesql.arithmetic import ARITHMETIC, ORDERS, checked_integer, exact_decimal
from app.filters.cesql.conditions import Casts, all_of, any_of, as_set, constant_sets, left_to_right
from app.filters.cesql.data import compile_data, compile_existence
from app.filters.cesql.decimals import negative
from app.filters.cesql.functions import Function, missing_function_message
from app.filters.cesql.like import compile_like
from app.filters.cesql.static_type import function_of, is_decimal, result_type
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
"""A function that returns a value for an event. It raises Failure if the evaluation ends with an error."""


def compile_node(node: nodes.ExpressionNode) -> Evaluator[Value]:
    """Return the evaluator of an expression: a function from an event to its value."""
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


def compile_boolean(node: nodes.ExpressionNode) -> Evaluator[bool]:
    """Return the evaluator of an expression whose value is cast to Boolean."""
    value = compile_node(node)
    if result_type(node) is bool:
        return cast("Evaluator[bool]", value)
    return lambda event: to_boolean(value(event))


def _predicate(node: nodes.ExpressionNode) -> Evaluator[bool]:
    match node:
        case nodes.Exists():
            name = node.name
            return lambda event: name in event.attributes
        case nodes.Not():
            operand = compile_boolean(node.operand)
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
    """Return the evaluator of an expression whose value is cast to String. An attribute is already text and
    needs no cast."""
    if not isinstance(node, nodes.Attribute):
        value = compile_node(node)
        return lambda event: to_text(value(event))
    name, message = node.name, _missing(node.name)

    def read(event: CloudEvent) -> str:
        text = event.attributes.get(name)
        if text is None:
            raise Failure("missingAttribute", message)
        return text

    return read


def _negate(node: nodes.Negate) -> Evaluator[Value]:
    operand = compile_node(node.operand)
    if is_decimal(node):
        return lambda event: negative(to_decimal(operand(event)))
    return lambda event: checked_integer(-to_integer(operand(event)))


def _arithmetic(node: nodes.Binary) -> Evaluator[Value]:
    if is_decimal(node):
        return _exact(node)
    left, right, apply = (
        compile_node(node.left),
        compile_node(node.right),
        ARITHMETIC[node.operator],
    )

    def calculate(event: CloudEvent) -> int:
        x, y = left(event), right(event)
        return checked_integer(apply(to_integer(x), to_integer(y)))

    return calculate


def _exact(node: nodes.Binary) -> Evaluator[Value]:
    left, right, sign = compile_node(node.left), compile_node(node.right), node.operator

    def calculate(event: CloudEvent) -> Value:
        x, y = left(event), right(event)
        return exact_decimal(sign, to_decimal(x), to_decimal(y))

    return calculate


def _order(node: nodes.Binary) -> Evaluator[bool]:
    left, right, holds = compile_node(node.left), compile_node(node.right), ORDERS[node.operator]
    number = to_decimal if is_decimal(node.left, node.right) else to_integer

    def compare(event: CloudEvent) -> bool:
        x, y = left(event), right(event)
        return holds(number(x), number(y))

    return compare


def _equality(node: nodes.Binary) -> Evaluator[bool]:
    """Return the evaluator of ``=`` or ``!=``. The left operand is cast to the type of the right one (CESQL 3.7)."""
    same = node.operator == "="
    if isinstance(node.right, nodes.Constant) and isinstance(node.right.value, str):
        return _equals_text(_text(node.left), node.right.value, same)
    left, right = compile_node(node.left), compile_node(node.right)
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
    """Return the evaluator of IN. The elements are cast to the type of the searched value (CESQL 3.7)."""
    wanted, inside = compile_node(node.operand), not node.negated
    casts = _casts(node.operand, *node.elements)
    if all(isinstance(each, nodes.Constant) for each in node.elements):
        holds = constant_sets([cast("nodes.Constant", each).value for each in node.elements], casts)
        return lambda event: holds(wanted(event)) is inside
    elements = [compile_node(each) for each in node.elements]

    def search(event: CloudEvent) -> bool:
        value = wanted(event)
        found = [element(event) for element in elements]
        return (value in as_set(found, value.__class__, casts)) is inside

    return search


def _logic(node: nodes.Logic) -> Evaluator[bool]:
    words = set(node.operators)
    if words == {"AND"}:
        return all_of([compile_boolean(each) for each in node.operands])
    if words == {"OR"}:
        return any_of([compile_boolean(each) for each in node.operands])
    return _mixed(node)


def _mixed(node: nodes.Logic) -> Evaluator[bool]:
    """Return the evaluator of mixed AND, OR and XOR, from left to right (CESQL 3.6)."""
    first, pairs = (
        compile_boolean(node.operands[0]),
        list(zip(node.operators, node.operands[1:], strict=True)),
    )
    if node.operators[0] == "XOR":
        first = _exclusive(node.operands[0], pairs.pop(0)[1])
    return left_to_right(first, [(word, compile_boolean(operand)) for word, operand in pairs])


def _exclusive(one: nodes.ExpressionNode, other: nodes.ExpressionNode) -> Evaluator[bool]:
    left, right = compile_node(one), compile_node(other)

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
    """Return a constant evaluator for a function call with constant arguments. It is computed once, because
    functions are pure."""
    try:
        return _constant(evaluate(_NO_EVENT))
    except Failure:
        return evaluate  # it fails for each event


def _called(node: nodes.Call, function: Function) -> Evaluator[Value]:
    arguments = [compile_node(each) for each in node.arguments]
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
    message = missing_function_message(node.name, len(node.arguments))

    def fail(_event: CloudEvent) -> Value:
        raise Failure("missingFunction", message)

    return fail
