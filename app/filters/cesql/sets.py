"""What IN looks into (CESQL 3.4.5): all elements, cast to the type of what is looked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from app.filters.cesql.values import Failure, Type, Value

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
