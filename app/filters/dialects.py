"""The filter dialects of the Subscriptions API, each compiled to a predicate over the attributes.

A filter sees the 1.0 names and canonical texts of the attributes, never the data. A missing
attribute is false, and compares are case-sensitive (spec 6.1). A new dialect (all, any, not, sql) is
a field of ``app.model.route.Filter`` and a line in ``DIALECTS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from app.model.route import Filter

Predicate = Callable[[Mapping[str, str]], bool]


def always(_attributes: Mapping[str, str]) -> bool:
    """No filter at all wants every event (Subscriptions API: absent or empty is true)."""
    return True


def compile_filters(filters: Sequence[Filter]) -> Predicate:
    """All filters of a list must hold. An empty list is ``always`` itself, so that a caller can tell."""
    return _all([_compiled(one) for one in filters])


def _compiled(one: Filter) -> Predicate:
    for dialect, compiled in DIALECTS.items():
        argument = getattr(one, dialect)
        if argument is not None:
            return compiled(argument)
    raise AssertionError("Filter lets none pass that names no dialect")


def _all(predicates: Sequence[Predicate]) -> Predicate:
    """Conjunction; one predicate stands for itself."""
    if not predicates:
        return always
    if len(predicates) == 1:
        return predicates[0]
    if len(predicates) == 2:  # noqa: PLR2004 - the usual case, without a loop
        first, second = predicates
        return lambda attributes: first(attributes) and second(attributes)
    every = tuple(predicates)
    return lambda attributes: all(predicate(attributes) for predicate in every)


def _entries(one: Callable[[str, str], Predicate]) -> Callable[[Mapping[str, str]], Predicate]:
    """A dialect whose argument maps attributes to texts: all entries must match."""
    return lambda argument: _all([one(name, text) for name, text in argument.items()])


def _exact(name: str, text: str) -> Predicate:
    return lambda attributes: attributes.get(name) == text


def _prefix(name: str, text: str) -> Predicate:
    # texts are never empty, so that "" of a missing attribute does not match
    return lambda attributes: attributes.get(name, "").startswith(text)


def _suffix(name: str, text: str) -> Predicate:
    return lambda attributes: attributes.get(name, "").endswith(text)


DIALECTS: Mapping[str, Callable[[Mapping[str, str]], Predicate]] = {
    "exact": _entries(_exact),
    "prefix": _entries(_prefix),
    "suffix": _entries(_suffix),
}
