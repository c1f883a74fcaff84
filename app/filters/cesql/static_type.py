"""What can be told of an expression before any event is seen."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from app.filters.cesql.arithmetic import ARITHMETIC
from app.filters.cesql.functions import OF_DECIMALS, Function, find
from app.filters.cesql.nodes import (
    Attribute,
    Binary,
    Call,
    Constant,
    Data,
    Logic,
    Negate,
    Node,
    Not,
    children,
)
from app.filters.cesql.values import Type


def returns(node: Node) -> Type | None:
    """The type of its value; None where the event decides."""
    match node:
        case Constant():
            return node.value.__class__
        case Attribute():
            return None
        case Data():
            return bool if node.existence else None
        case Call():
            function = function_of(node)
            return function.returns if function else bool  # CESQL 3.5: false
        case Negate():
            return Decimal if is_decimal(node) else int
        case Binary() if node.operator in ARITHMETIC:
            return Decimal if is_decimal(node) else int
    return bool


def is_decimal(*nodes: Node) -> bool:
    """Whether numbers of one of them are decimals: what is calculated or compared with it is one, too. It is
    told by the expression alone: 21 and 21.0 in the data come to the same.
    """
    return any(map(_is_decimal, nodes))


def _is_decimal(node: Node) -> bool:
    match node:
        case Constant():
            return isinstance(node.value, Decimal)
        case Data():
            return not node.existence
        case Negate():
            return _is_decimal(node.operand)
        case Binary() if node.operator in ARITHMETIC:
            return is_decimal(node.left, node.right)
        case Call() if node.name in OF_DECIMALS:
            return is_decimal(*node.arguments)
    return False


def function_of(node: Call) -> Function | None:
    """The function that a call names; None: there is none."""
    found = find(node.name, len(node.arguments))
    return OF_DECIMALS[node.name] if found and _is_decimal(node) else found


def lone_decimal(node: Node) -> Node | None:
    """A decimal of a comparison without DATA: attributes have none, and CESQL has none."""
    if isinstance(node, Logic | Not):
        return next(filter(None, map(lone_decimal, children(node))), None)
    parts = list(_parts(node))
    if any(isinstance(each, Data) and not each.existence for each in parts):
        return None
    return next((each for each in parts if isinstance(each, Constant) and _is_decimal(each)), None)


def _parts(node: Node) -> Iterator[Node]:
    yield node
    for each in children(node):
        yield from _parts(each)
