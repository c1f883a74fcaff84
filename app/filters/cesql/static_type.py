"""What can be told of an expression before any event is seen."""

from __future__ import annotations

from app.filters.cesql.arithmetic import ARITHMETIC
from app.filters.cesql.functions import find
from app.filters.cesql.nodes import Attribute, Binary, Call, Constant, Data, Negate, Node
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
            function = find(node.name, len(node.arguments))
            return function.returns if function else bool  # CESQL 3.5: false
        case Negate():
            return int
        case Binary() if node.operator in ARITHMETIC:
            return int
    return bool
