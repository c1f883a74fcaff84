"""Find the part of an SQL expression that decided its result, and the values that this part read, for ``explain``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from app.event.value import CloudEvent
from app.filters.cesql.compiler import compile_boolean
from app.filters.cesql.expression import Result, evaluated
from app.filters.cesql.nodes import Attribute, Data, Exists, ExpressionNode, Logic, Not, children
from app.filters.cesql.printer import node_text
from app.filters.cesql.values import NAMES, Failure, clipped

_MOST_SEEN = 5  # the most values that an explanation shows


class Decision(NamedTuple):
    """The part of an expression that decided the result.

    Attributes:
        part: The smallest part that alone decides the result, as text.
        because: The result of that part, and the values that it read.
    """

    part: str
    because: str


def decide(root: ExpressionNode, event: CloudEvent) -> Decision:
    """Return which part of the expression decided its result for this event."""
    node = _deciding(root, event)
    return Decision(node_text(node), _because(node, event))


def _deciding(node: ExpressionNode, event: CloudEvent) -> ExpressionNode:
    match node:
        case Not():
            return _deciding(node.operand, event)
        case Logic():
            settling = _settling(node, event)
            return node if settling is None else _deciding(settling, event)
    return node


def _settling(node: Logic, event: CloudEvent) -> ExpressionNode | None:
    """Return the operand that alone decides the result. Return None if the result depends on several
    operands."""
    settling: ExpressionNode | None = node.operands[0]
    value = _boolean(node.operands[0], event)
    for word, operand in zip(node.operators, node.operands[1:], strict=True):
        if value is None or (word != "XOR" and value is (word == "OR")):
            continue  # it failed, or short circuit
        found = _boolean(operand, event)
        alone = found is None or (word != "XOR" and found is (word == "OR"))
        settling = operand if alone else None
        value = None if found is None else (value is not found if word == "XOR" else found)
    return settling


def _boolean(node: ExpressionNode, event: CloudEvent) -> bool | None:
    """Return the value of a part, cast to Boolean. Return None if its evaluation fails."""
    try:
        return compile_boolean(node)(event)
    except Failure:
        return None


def _because(node: ExpressionNode, event: CloudEvent) -> str:
    result = evaluated(node, event)
    if result.errors:
        return result.errors[0].message
    seen = list(dict.fromkeys(_seen(node, event)))
    shown_values = ", ".join(seen[:_MOST_SEEN]) + (", …" if len(seen) > _MOST_SEEN else "")
    return f"{_outcome(result)}: {shown_values}" if seen else _outcome(result)


def _outcome(result: Result) -> str:
    value = result.value
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"a {NAMES[value.__class__]}, not a Boolean: {clipped(value)}"


def _seen(node: ExpressionNode, event: CloudEvent) -> Iterator[str]:
    match node:
        case Attribute() | Data():
            yield _value_of(node, event)
        case Exists():
            there = "has" if node.name in event.attributes else "has no"
            yield f"the event {there} {node.name}"
    for each in children(node):
        yield from _seen(each, event)


def _value_of(node: Attribute | Data, event: CloudEvent) -> str:
    result = evaluated(node, event)
    return (
        result.errors[0].message
        if result.errors
        else f"{node_text(node)} is {clipped(result.value)}"
    )
