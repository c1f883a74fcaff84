"""Why an event passes the filters of a route or a subscription, or why not. Not for the hot path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from app.event.value import CloudEvent
from app.filters.cesql.decision import decide
from app.filters.cesql.expression import Expression
from app.filters.cesql.values import clipped
from app.filters.dialects import compile_filter, written
from app.filters.model import DIALECTS, Filter


class Verdict(msgspec.Struct, frozen=True):
    """What one filter says of one event.

    ``dialect``     as users write it.
    ``passes``      what the filter says.
    ``decided_by``  the part of it that settled that: ``prefix type 'com.example.'``, or SQL.
    ``because``     one clause for a person, with the values seen, clipped.
    ``inner``       of all, any and not: the verdicts of the filters they are made of.
    """

    dialect: str
    passes: bool
    decided_by: str
    because: str
    inner: tuple[Verdict, ...] = ()


def explain_filters(filters: Sequence[Filter], event: CloudEvent) -> tuple[Verdict, ...]:
    """A verdict for each filter, all of them: nothing is left out once one has failed."""
    return tuple(explain_filter(one, event) for one in filters)


def explain_filter(one: Filter, event: CloudEvent) -> Verdict:
    dialect, argument = written(one)
    passes = compile_filter(one)(event)
    match dialect:
        case "sql":
            part, because = decide(Expression(argument).root, event)
            return Verdict("sql", passes, part, because)
        case "all" | "any" | "not_":
            return _of_inner(DIALECTS[dialect], passes, explain_filters(one.inner, event))
    return _of_entries(dialect, passes, argument, event)


def _of_entries(
    dialect: str, passes: bool, entries: Mapping[str, str], event: CloudEvent
) -> Verdict:
    """The first entry that does not match, or all of them."""
    failing = [
        {name: text}
        for name, text in entries.items()
        if not compile_filter(Filter.model_validate({dialect: {name: text}}))(event)
    ]
    deciding = failing[0] if failing else entries
    parts = ", ".join(f"{name} {clipped(text)}" for name, text in deciding.items())
    because = ", ".join(_seen(name, event) for name in deciding)
    return Verdict(dialect, passes, f"{dialect} {parts}", because)


def _seen(name: str, event: CloudEvent) -> str:
    value = event.attributes.get(name)
    return f"the event has no {name}" if value is None else f"{name} is {clipped(value)}"


def _of_inner(dialect: str, passes: bool, inner: tuple[Verdict, ...]) -> Verdict:
    """Settled by one alone where one alone can: the first that fails ``all``, or that passes ``any``."""
    one_settles = passes is (dialect == "any")
    settling = [each for each in inner if each.passes is passes] if one_settles else list(inner)
    if dialect == "not" or one_settles or len(inner) == 1:
        first = settling[0] if settling else inner[0]
        return Verdict(dialect, passes, first.decided_by, first.because, inner)
    word = "all match" if passes else "none matches"
    return Verdict(dialect, passes, f"{dialect} of {len(inner)} filters", word, inner)
