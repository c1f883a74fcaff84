"""Why an event passes the filters of a route or a subscription, or why not. Not for the hot path."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence

import msgspec

from app.event.value import CloudEvent
from app.filters.cesql.decision import decide
from app.filters.cesql.expression import Expression
from app.filters.cesql.values import clipped
from app.filters.dialects import are_long, compile_filter, units_of, written
from app.filters.model import DIALECTS, Filter


class FilterVerdict(msgspec.Struct, frozen=True):
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
    inner: tuple[FilterVerdict, ...] = ()


Work = Callable[[], None]
"""A part of a computation that is too long for the event loop, and may run in any thread."""

Explain = Callable[[CloudEvent], FilterVerdict]

_HOLDS: Mapping[str, Callable[[Sequence[bool]], bool]] = {
    "all": all,
    "any": any,
    "not": lambda passes: not all(passes),
}
"""From the results of the inner filters to that of the filter."""


def explain_filter(one: Filter, event: CloudEvent) -> FilterVerdict:
    return compile_explanation(one)(event)


class Explainer:
    """The filters of one route or subscription, compiled when an event first asks for them.

    ``units``: as ``units_of`` counts them.
    """

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._filters = filters
        self._compiled: tuple[Explain, ...] | None = None
        self.units = units_of(filters)

    def __call__(self, event: CloudEvent) -> tuple[FilterVerdict, ...]:
        """Return a verdict for each filter, also behind one that has failed."""
        self.compile()
        return tuple([explain(event) for explain in self._compiled or ()])

    def steps(self, event: CloudEvent) -> Generator[int | Work, None, tuple[FilterVerdict, ...]]:
        """Return the same verdicts. Yield the units of each step, or the next step itself where it is long."""
        if not are_long(self._filters):
            verdicts = self(event)
            yield self.units + 1
            return verdicts
        found: list[FilterVerdict] = []
        yield lambda: found.extend(self(event))
        return tuple(found)

    def compile(self) -> None:
        """Compile the filters, unless that has been done."""
        if self._compiled is None:
            self._compiled = tuple(map(compile_explanation, self._filters))


def compile_explanation(one: Filter) -> Explain:
    """Return the function from an event to the verdict of this filter."""
    dialect, argument = written(one)
    match dialect:
        case "sql":
            return _sql(Expression(argument))
        case "all" | "any" | "not_":
            return _inner(DIALECTS[dialect], one)
    return _entries(dialect, argument)


def _sql(expression: Expression) -> Explain:
    def explain(event: CloudEvent) -> FilterVerdict:
        part, because = decide(expression.root, event)
        return FilterVerdict("sql", expression.matches(event), part, because)

    return explain


def _inner(dialect: str, one: Filter) -> Explain:
    inner = tuple(map(compile_explanation, one.inner))
    holds = _HOLDS[dialect]

    def explain(event: CloudEvent) -> FilterVerdict:
        verdicts = tuple([each(event) for each in inner])
        return _of_inner(dialect, holds([each.passes for each in verdicts]), verdicts)

    return explain


def _entries(dialect: str, entries: Mapping[str, str]) -> Explain:
    """Name the first entry that does not match, or all of them."""
    each = [
        (name, text, compile_filter(Filter.model_validate({dialect: {name: text}})))
        for name, text in entries.items()
    ]

    def explain(event: CloudEvent) -> FilterVerdict:
        failing = next(((name, text) for name, text, passes in each if not passes(event)), None)
        deciding = entries if failing is None else dict([failing])
        parts = ", ".join(f"{name} {clipped(text)}" for name, text in deciding.items())
        because = ", ".join(_seen(name, event) for name in deciding)
        return FilterVerdict(dialect, failing is None, f"{dialect} {parts}", because)

    return explain


def _seen(name: str, event: CloudEvent) -> str:
    value = event.attributes.get(name)
    return f"the event has no {name}" if value is None else f"{name} is {clipped(value)}"


def _of_inner(dialect: str, passes: bool, inner: tuple[FilterVerdict, ...]) -> FilterVerdict:
    """Settled by one alone where one alone can: the first that fails ``all``, or that passes ``any``."""
    one_settles = passes is (dialect == "any")
    settling = [each for each in inner if each.passes is passes] if one_settles else list(inner)
    if dialect == "not" or one_settles or len(inner) == 1:
        first = settling[0] if settling else inner[0]
        return FilterVerdict(dialect, passes, first.decided_by, first.because, inner)
    word = "all match" if passes else "none matches"
    return FilterVerdict(dialect, passes, f"{dialect} of {len(inner)} filters", word, inner)
