"""The types of expressions that are known without an event."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from app.filters.cesql import nodes
from app.filters.cesql.arithmetic import ARITHMETIC
from app.filters.cesql.functions import DECIMAL_FUNCTIONS, Function, find
from app.filters.cesql.values import Type

TIME = "TIME"


def result_type(node: nodes.ExpressionNode) -> Type | None:
    """Return the type of an expression's value, or None if it depends on the event."""
    match node:
        case nodes.Constant():
            return node.value.__class__
        case nodes.Attribute():
            return None
        case nodes.Data():
            return bool if node.existence else None
        case nodes.Call():
            function = function_of(node)
            return (
                function.returns if function else bool
            )  # a missing function returns false (CESQL 3.5)
        case nodes.Negate():
            return Decimal if is_decimal(node) else int
        case nodes.Binary() if node.operator in ARITHMETIC:
            return Decimal if is_decimal(node) else int
    return bool


def is_decimal(*operands: nodes.ExpressionNode) -> bool:
    """Return True if an operand is a decimal number, so that the whole calculation or comparison uses decimals.

    The result depends on the expression alone, not on the event. So 21 and 21.0 in the data give the same
    result.
    """
    return any(map(_is_decimal, operands))


def _is_decimal(node: nodes.ExpressionNode) -> bool:
    match node:
        case nodes.Constant():
            return isinstance(node.value, Decimal)
        case nodes.Data():
            return not node.existence
        case nodes.Negate():
            return _is_decimal(node.operand)
        case nodes.Binary() if node.operator in ARITHMETIC:
            return is_decimal(node.left, node.right)
        case nodes.Call() if node.name == TIME:
            return True
        case nodes.Call() if node.name in DECIMAL_FUNCTIONS:
            return is_decimal(*node.arguments)
    return False


def function_of(node: nodes.Call) -> Function | None:
    """Return the function that a call names, or None if there is none."""
    found = find(node.name, len(node.arguments))
    for_decimals = node.name in DECIMAL_FUNCTIONS and found and _is_decimal(node)
    return DECIMAL_FUNCTIONS[node.name] if for_decimals else found


def lone_decimal(node: nodes.ExpressionNode) -> nodes.ExpressionNode | None:
    """Return a decimal literal in a comparison that contains neither DATA nor TIME, or None. The parser
    refuses such a comparison, because attributes are never decimals."""
    if isinstance(node, nodes.Logic | nodes.Not):
        return next(filter(None, map(lone_decimal, nodes.children(node))), None)
    parts = list(_parts(node))
    if any(map(_gives_decimals, parts)):
        return None
    return next(
        (each for each in parts if isinstance(each, nodes.Constant) and _is_decimal(each)), None
    )


def _gives_decimals(node: nodes.ExpressionNode) -> bool:
    if isinstance(node, nodes.Call):
        return node.name == TIME
    return isinstance(node, nodes.Data) and not node.existence


def _parts(node: nodes.ExpressionNode) -> Iterator[nodes.ExpressionNode]:
    yield node
    for each in nodes.children(node):
        yield from _parts(each)
