"""AND, OR and XOR of conditions that are compiled: from left to right, no further than is needed (CESQL
3.4.2 and 3.6).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.event.value import CloudEvent

Condition = Callable[[CloudEvent], bool]


def all_of(operands: Sequence[Condition]) -> Condition:
    if len(operands) == 2:  # noqa: PLR2004 - the usual case, without a loop
        left, right = operands
        return lambda event: left(event) and right(event)
    return lambda event: all(operand(event) for operand in operands)


def any_of(operands: Sequence[Condition]) -> Condition:
    if len(operands) == 2:  # noqa: PLR2004 - likewise
        left, right = operands
        return lambda event: left(event) or right(event)
    return lambda event: any(operand(event) for operand in operands)


def in_turn(first: Condition, rest: Sequence[tuple[str, Condition]]) -> Condition:
    """Of mixed words, each with what stands behind it."""

    def evaluate(event: CloudEvent) -> bool:
        value = first(event)
        for word, operand in rest:
            if word == "XOR":
                value = value is not operand(event)
            elif value is (word == "AND"):  # else it is decided: short circuit
                value = operand(event)
        return value

    return evaluate if rest else first
