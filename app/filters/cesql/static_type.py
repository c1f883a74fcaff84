"""What can be told of an expression before any event is seen."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from app.filters.cesql import nodes
from app.filters.cesql.arithmetic import ARITHMETIC
from app.filters.cesql.functions import OF_DECIMALS, Function, find
from app.filters.cesql.values import Type

TIME = "TIME"


def returns(node: nodes.ExpressionNode) -> Type | None:
    """The type of its value; None where the event decides."""
    match node:
        case nodes.Constant():
            return node.value.__class__
        case nodes.Attribute():
            return None
        case nodes.Data():
            return bool if node.existence else None
        case nodes.Call():
            function = function_of(node)
            return function.returns if function else bool  # CESQL 3.5: false
        case nodes.Negate():
            return Decimal if is_decimal(node) else int
        case nodes.Binary() if node.operator in ARITHMETIC:
            return Decimal if is_decimal(node) else int
    return bool


def is_decimal(*operands: nodes.ExpressionNode) -> bool:
    """Whether numbers of one of them are decimals: what is calculated or compared with it is one, too. It is
    told by the expression alone: 21 and 21.0 in the data come to the same.
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
        case nodes.Call() if node.name in OF_DECIMALS:
            return is_decimal(*node.arguments)
    return False


def function_of(node: nodes.Call) -> Function | None:
    """The function that a call names; None: there is none."""
    found = find(node.name, len(node.arguments))
    stands_in = node.name in OF_DECIMALS and found and _is_decimal(node)
    return OF_DECIMALS[node.name] if stands_in else found


def lone_decimal(node: nodes.ExpressionNode) -> nodes.ExpressionNode | None:
    """A decimal of a comparison without DATA and TIME: attributes have none, and CESQL has none."""
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
