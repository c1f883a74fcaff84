"""Compile the filter dialects of the CloudEvents Subscriptions API to predicates over events.

A filter sees 1.0 names and canonical texts of attributes. Only an SQL filter can read the data. A filter on a
missing attribute is false, and ``not`` with such a filter is true. Comparison is case-sensitive.

A new dialect is a field of ``app.filters.model.Filter`` and an entry in ``COMPILERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from app.event.value import CloudEvent
from app.filters.cesql.expression import Expression, Failed
from app.filters.model import Filter

Predicate = Callable[[CloudEvent], bool]
"""A function that returns True if the event matches."""


def always(_event: CloudEvent) -> bool:
    """Return True. This is the predicate of a subscription without filters, which wants every event
    (Subscriptions API)."""
    return True


def compile_filters(filters: Sequence[Filter], failed: Failed | None = None) -> Predicate:
    """Return the predicate that is true if all filters match. For an empty list, return the function
    ``always``.

    Args:
        filters: The filters.
        failed: Called for each SQL expression that fails.
    """
    return _all([compile_filter(one, failed) for one in filters])


def compile_filter(one: Filter, failed: Failed | None = None) -> Predicate:
    """Return the predicate of one filter."""
    dialect, argument = dialect_of(one)
    return COMPILERS[dialect](argument, failed)


def can_fail(filters: Sequence[Filter]) -> bool:
    """Return True if the filters contain an SQL expression. Filters of other dialects never fail."""
    return any(map(attrgetter("sql"), with_inner(filters)))


_AT_ONCE = 4  # units that compile in two milliseconds at most
_OF_UNIT = 64  # characters of an expression that count as one unit


def units_of(filters: Sequence[Filter]) -> int:
    """Return the work that one event may cause at most, as a number of filters to evaluate.

    Filters inside ``all``, ``any`` and ``not`` are counted. A long SQL expression counts as several filters,
    by its length.
    """
    units = 0
    for one in with_inner(filters):
        texts = one.exact or one.prefix or one.suffix
        units += len(texts) if texts else 1 + len(one.sql or "") // _OF_UNIT
    return units


def are_long(filters: Sequence[Filter]) -> bool:
    """Return True if compiling these filters would block the event loop for too long."""
    return units_of(filters) > _AT_ONCE


def with_inner(filters: Sequence[Filter]) -> list[Filter]:
    """Return the filters and all filters inside them. The function uses a loop instead of recursion, because
    there may be thousands."""
    found = [*filters]
    for one in found:
        found += one.all or one.any or (() if one.not_ is None else (one.not_,))
    return found


def dialect_of(one: Filter) -> tuple[str, Any]:
    """Return the dialect of a filter, by the model's field name, and its argument."""
    for dialect in COMPILERS:
        argument = getattr(one, dialect)
        if argument is not None:
            return dialect, argument
    raise AssertionError("a filter must name a dialect")


def _all(predicates: Sequence[Predicate]) -> Predicate:
    """Return a predicate that is true if all these predicates are true. A single predicate is returned
    unchanged."""
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
    if len(predicates) == 2:  # noqa: PLR2004 - the usual case, without a loop
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
    """Return the compiler of a dialect whose argument maps attributes to texts. An event matches if all
    entries of the mapping match."""
    return lambda argument, _failed: _all([one(name, text) for name, text in argument.items()])


def _exact(name: str, text: str) -> Predicate:
    return lambda event: event.attributes.get(name) == text


def _prefix(name: str, text: str) -> Predicate:
    # the text is never empty, so a missing attribute, read as "", does not match
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
