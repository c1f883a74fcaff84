"""Find filters that never match: conditions that no event meets, and alternatives that all contradict the other
conditions, as in ``(type = 'a' OR type = 'b') AND type = 'c'``.

The filters are rewritten as alternatives, each a list of conditions that must all hold. An expression that cannot be
rewritten has no conditions, so it contradicts nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from app.event.value import CloudEvent
from app.event.versions import NEWEST
from app.filters.cesql import nodes
from app.filters.cesql.expression import evaluated
from app.filters.cesql.parser import parse
from app.filters.contradictions import (
    TEXTS,
    Condition,
    alike,
    conditions_of,
    exclude,
    meets,
    opposite,
    text_condition,
)
from app.filters.dialects import units_of
from app.filters.doubts import FilterWarning, Path, reads_event
from app.filters.model import Filter

MOST = 64  # alternatives; of more, some conditions are not considered
LONGEST = 200  # units of filters, above which they are not analysed

Alternatives = Sequence[Sequence[Condition]]

_ANYTHING: Alternatives = ((),)
_VERSION = nodes.Attribute("specversion")
_DATA = nodes.Attribute("data")


def impossible(filters: Sequence[Filter], *, conflicts: bool) -> Iterator[FilterWarning]:
    """Yield a warning for each condition that no event meets, or one if none of the alternatives can match.

    Args:
        filters: The filters, which must all match.
        conflicts: Whether two conditions that must both hold are known to contradict each other.
    """
    if units_of(filters) > LONGEST:
        return
    found = [_rewritten(one, (n,)) for n, one in enumerate(filters)]
    never = dict.fromkeys(
        (one.text, one.path, why)
        for each in found
        for one in _flat(each)
        if (why := _why_never(one)) is not None
    )
    for text, path, why in never:
        yield FilterWarning(path, f"{text} never matches{why}", "correct or remove it")
    if not (never or conflicts):
        yield from _if_all_conflict(_joined(found))


def _if_all_conflict(every: Alternatives) -> Iterator[FilterWarning]:
    """Yield a warning if there are several alternatives, and each of them contradicts itself."""
    conflicts = [found for each in every if (found := _conflict(each)) is not None]
    if 1 < len(every) == len(conflicts):
        (one, two), (three, four) = conflicts[0], conflicts[-1]
        message = (
            f"{one.text} and {two.text} never both match, and neither do the other alternatives, such as "
            f"{three.text} and {four.text}, so no event passes"
        )
        yield FilterWarning(two.path, message, "correct or remove one of these conditions")


def _flat(alternatives: Alternatives) -> Iterator[Condition]:
    return (one for each in alternatives for one in each)


def _conflict(conditions: Sequence[Condition]) -> tuple[Condition, Condition] | None:
    pairs = combinations(conditions, 2)
    return next((pair for pair in pairs if pair[0].of == pair[1].of and exclude(*pair)), None)


def _why_never(one: Condition) -> str | None:
    """Return why no event meets a condition, as a clause that may be empty, or None if an event may."""
    if one.of == _VERSION:
        seen = Condition(one.of, "in", (NEWEST,), "", ())
        return (
            f", because filters see every event in version {NEWEST}" if exclude(one, seen) else None
        )
    if one.of == _DATA and one.kind in {"in", "prefix", "suffix"} and one.path[-1] in TEXTS:
        return ", because data is no attribute"
    if reads_event(one.of):
        return None
    value, errors = evaluated(one.of, CloudEvent({}))
    if errors or not alike(value, *one.values):  # app.filters.doubts reports errors
        return None
    return None if meets(value, one) else ""


def _rewritten(one: Filter, path: Path) -> Alternatives:
    """Return the alternatives of a filter."""
    if one.sql is not None:
        return _of_sql(parse(one.sql), (*path, "sql"))
    if one.not_ is not None:
        return _refuted(one.not_, (*path, "not"))
    if one.all is not None:
        return _joined([_rewritten(each, (*path, "all", n)) for n, each in enumerate(one.all)])
    if one.any is not None:
        return _either([_rewritten(each, (*path, "any", n)) for n, each in enumerate(one.any)])
    return (tuple(_texts(one, path)),)


def _refuted(one: Filter, path: Path) -> Alternatives:
    """Return the alternatives of events that do not match a filter. An SQL filter also does not match if it fails."""
    if one.sql is not None:
        return _ANYTHING
    if one.not_ is not None:
        return _rewritten(one.not_, (*path, "not"))
    if one.all is not None:
        return _either([_refuted(each, (*path, "all", n)) for n, each in enumerate(one.all)])
    if one.any is not None:
        return _joined([_refuted(each, (*path, "any", n)) for n, each in enumerate(one.any)])
    return _either([((opposite(each, "not "),),) for each in _texts(one, path)])


def _texts(one: Filter, path: Path) -> Iterator[Condition]:
    for dialect in TEXTS:
        for name, text in (getattr(one, dialect) or {}).items():
            yield text_condition(dialect, name, text, path)


def _of_sql(node: nodes.ExpressionNode, path: Path, *, negated: bool = False) -> Alternatives:
    """Return the alternatives in which an expression is true, or false if ``negated``."""
    match node:
        case nodes.Not(inner):
            return _of_sql(inner, path, negated=not negated)
        case nodes.Logic(operands, operators):
            if "XOR" in operators:
                return _ANYTHING
            joins = "OR" if negated else "AND"
            first, *others = [_of_sql(each, path, negated=negated) for each in operands]
            for operator, other in zip(operators, others, strict=True):
                first = _both(first, other) if operator == joins else _either([first, other])
            return first
    return (tuple(conditions_of(nodes.Not(node) if negated else node, path)),)


def _joined(found: Sequence[Alternatives]) -> Alternatives:
    every = _ANYTHING
    for each in found:
        every = _both(every, each)
    return every


def _both(one: Alternatives, other: Alternatives) -> Alternatives:
    """Return the alternatives of two filters that must both match."""
    if len(one) * len(other) > MOST:
        return min(one, other, key=len)
    return [(*first, *second) for first in one for second in other]


def _either(found: Sequence[Alternatives]) -> Alternatives:
    """Return the alternatives of filters of which one must match."""
    every = [each for alternatives in found for each in alternatives]
    return every if len(every) <= MOST else _ANYTHING
