"""Evaluate AND, OR and XOR from left to right with short circuit (CESQL 3.4.2, 3.6). Test membership in the
sets of IN (3.4.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from app.event.value import CloudEvent
from app.filters.cesql.values import Failure, Type, Value

Condition = Callable[[CloudEvent], bool]


def all_of(operands: Sequence[Condition]) -> Condition:
    """Return the condition that is true if all operands are true, with short circuit."""
    if len(operands) == 2:  # noqa: PLR2004 - the usual case, without a loop
        left, right = operands
        return lambda event: left(event) and right(event)
    return lambda event: all(operand(event) for operand in operands)


def any_of(operands: Sequence[Condition]) -> Condition:
    """Return the condition that is true if any operand is true, with short circuit."""
    if len(operands) == 2:  # noqa: PLR2004 - the usual case, without a loop
        left, right = operands
        return lambda event: left(event) or right(event)
    return lambda event: any(operand(event) for operand in operands)


def left_to_right(first: Condition, rest: Sequence[tuple[str, Condition]]) -> Condition:
    """Return the condition of several operators, evaluated in order. Each operator in ``rest`` comes with the
    operand that follows it."""

    def evaluate(event: CloudEvent) -> bool:
        value = first(event)
        for word, operand in rest:
            if word == "XOR":
                value = value is not operand(event)
            elif value is (word == "AND"):  # otherwise the result is decided: short circuit
                value = operand(event)
        return value

    return evaluate if rest else first


Casts = Mapping[Type, Callable[[Value], Value]]
"""The cast function for each type."""


def as_set(values: Sequence[Value], target: Type, casts: Casts) -> frozenset[Value]:
    """Return the values cast to ``target``. Raises Failure if one of them cannot be cast."""
    return frozenset(map(casts[target], values))


def constant_sets(values: Sequence[Value], casts: Casts) -> Callable[[Value], bool]:
    """Return a test whether a value is one of these constants.

    The constants are cast in advance to each type that the value may have. If a cast to some type fails, the
    error is raised only when a value of this type is tested.
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
