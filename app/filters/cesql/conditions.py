"""Parts of conditions that are compiled: AND, OR and XOR, from left to right and no further than is needed
(CESQL 3.4.2 and 3.6), and what IN looks into (3.4.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from app.event.value import CloudEvent
from app.filters.cesql.values import Failure, Type, Value

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


Casts = Mapping[Type, Callable[[Value], Value]]


def as_set(values: Sequence[Value], target: Type, casts: Casts) -> frozenset[Value]:
    """Raises Failure where one of them cannot be cast."""
    return frozenset(map(casts[target], values))


def constant_sets(values: Sequence[Value], casts: Casts) -> Callable[[Value], bool]:
    """Of elements that no event changes: whether a value is one of them. There is a set for each type
    that it may be of, or the failure of making it.
    """
    sets: dict[Type, frozenset[Value]] = {}
    failures: dict[Type, Failure] = {}
    for target in casts:
        try:
            sets[target] = as_set(values, target, casts)
        except Failure as failure:
            failures[target] = failure

    def holds(value: Value) -> bool:
        within = sets.get(value.__class__)
        if within is None:
            failure = failures[value.__class__]
            raise Failure(failure.kind, failure.message)
        return value in within

    return holds
