"""The filter dialects of the Subscriptions API, each compiled to a predicate over the event.

A filter sees the 1.0 names and canonical texts of the attributes; the data only where SQL asks for it.
A missing attribute is false, and so its ``not`` is true; compares are case-sensitive (spec 6.1). A new
dialect is a field of ``app.filters.model.Filter`` and a line in ``COMPILERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from app.event.value import CloudEvent
from app.filters.cesql.expression import Expression, Failed
from app.filters.model import Filter

Predicate = Callable[[CloudEvent], bool]


def always(_event: CloudEvent) -> bool:
    """No filter at all wants every event (Subscriptions API: absent or empty is true)."""
    return True


def compile_filters(filters: Sequence[Filter], failed: Failed | None = None) -> Predicate:
    """All filters of a list must hold. An empty list is ``always`` itself, so that a caller can tell.
    ``failed``: is told of each expression that fails."""
    return _all([compile_filter(one, failed) for one in filters])


def compile_filter(one: Filter, failed: Failed | None = None) -> Predicate:
    dialect, argument = written(one)
    return COMPILERS[dialect](argument, failed)


def can_fail(filters: Sequence[Filter]) -> bool:
    """Return True if there is an expression in the filters: no other dialect has errors."""
    return any(map(attrgetter("sql"), _every(filters)))


_AT_ONCE = 4  # units whose compilation takes two milliseconds at most
_OF_UNIT = 64  # characters of an expression that count as one filter


def units_of(filters: Sequence[Filter]) -> int:
    """Return how many filters one event evaluates at most: those inside ``all``, ``any`` and ``not`` are counted, and
    long expressions by their length."""
    units = 0
    for one in _every(filters):
        texts = one.exact or one.prefix or one.suffix
        units += len(texts) if texts else 1 + len(one.sql or "") // _OF_UNIT
    return units


def are_long(filters: Sequence[Filter]) -> bool:
    """Return True if the event loop must not compile these filters."""
    return units_of(filters) > _AT_ONCE


def _every(filters: Sequence[Filter]) -> list[Filter]:
    """Return the filters with all that they are made of. No call for each: there may be thousands."""
    found = [*filters]
    for one in found:
        found += one.all or one.any or (() if one.not_ is None else (one.not_,))
    return found


def written(one: Filter) -> tuple[str, Any]:
    """The dialect that a filter is in, by the model's name for it, and its argument."""
    for dialect in COMPILERS:
        argument = getattr(one, dialect)
        if argument is not None:
            return dialect, argument
    raise AssertionError("a filter must name a dialect")


def _all(predicates: Sequence[Predicate]) -> Predicate:
    """Conjunction; one predicate stands for itself."""
    if not predicates:
        return always
    if len(predicates) == 1:
        return predicates[0]
    if len(predicates) == 2:  # noqa: PLR2004 - the usual case, without a loop
        first, second = predicates
        return lambda event: first(event) and second(event)
    every = tuple(predicates)
    return lambda event: all(predicate(event) for predicate in every)


def _any(filters: Sequence[Filter], failed: Failed | None) -> Predicate:
    predicates = [compile_filter(one, failed) for one in filters]
    if len(predicates) == 1:
        return predicates[0]
    if len(predicates) == 2:  # noqa: PLR2004 - likewise
        first, second = predicates
        return lambda event: first(event) or second(event)
    return lambda event: any(predicate(event) for predicate in predicates)


def _not(one: Filter, failed: Failed | None) -> Predicate:
    holds = compile_filter(one, failed)
    return lambda event: not holds(event)


def _sql(expression: str, failed: Failed | None) -> Predicate:
    read = Expression(expression)
    return read.predicate(failed) if failed else read.matches


def _entries(one: Callable[[str, str], Predicate]) -> Callable[[Any, Failed | None], Predicate]:
    """A dialect whose argument maps attributes to texts: all entries must match."""
    return lambda argument, _failed: _all([one(name, text) for name, text in argument.items()])


def _exact(name: str, text: str) -> Predicate:
    return lambda event: event.attributes.get(name) == text


def _prefix(name: str, text: str) -> Predicate:
    # texts are never empty, so that "" of a missing attribute does not match
    return lambda event: event.attributes.get(name, "").startswith(text)


def _suffix(name: str, text: str) -> Predicate:
    return lambda event: event.attributes.get(name, "").endswith(text)


COMPILERS: Mapping[str, Callable[[Any, Failed | None], Predicate]] = {
    "exact": _entries(_exact),
    "prefix": _entries(_prefix),
    "suffix": _entries(_suffix),
    "all": compile_filters,
    "any": _any,
    "not_": _not,
    "sql": _sql,
}
