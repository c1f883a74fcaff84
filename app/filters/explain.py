"""Explain why an event passes the filters of a route or subscription, or why it does not. This is too slow
for delivery."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence

import msgspec

from app.event.value import CloudEvent
from app.filters.cesql.decision import decide
from app.filters.cesql.expression import Expression
from app.filters.cesql.values import clipped
from app.filters.dialects import are_long, compile_filter, dialect_of, units_of
from app.filters.model import DIALECTS, Filter


class FilterVerdict(msgspec.Struct, frozen=True):
    """The result of one filter for one event, with its reason.

    Attributes:
        dialect: The name of the dialect in the configuration.
        passes: True if the event matches the filter.
        decided_by: The part of the filter that decided the result, such as ``prefix type 'com.example.'``, or
            a part of an SQL expression.
        because: The reason in one clause, with the values of the event, shortened.
        inner: The verdicts of the filters inside ``all``, ``any`` or ``not``.
    """

    dialect: str
    passes: bool
    decided_by: str
    because: str
    inner: tuple[FilterVerdict, ...] = ()


Work = Callable[[], None]
"""A part of a computation that would block the event loop for too long. It may run in any thread."""

Explain = Callable[[CloudEvent], FilterVerdict]
"""A function that returns the verdict of one filter for an event."""

_HOLDS: Mapping[str, Callable[[Sequence[bool]], bool]] = {
    "all": all,
    "any": any,
    "not": lambda passes: not all(passes),
}
"""A function for each dialect with inner filters. It computes the result of the filter from the results of
the inner filters."""


class Explainer:
    """The filters of one route or subscription. They are compiled when the first event is explained.

    Attributes:
        units: The work that one event may cause at most, as ``units_of`` counts it.
    """

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._filters = filters
        self._compiled: tuple[Explain, ...] | None = None
        self.units = units_of(filters)

    def __call__(self, event: CloudEvent) -> tuple[FilterVerdict, ...]:
        """Return a verdict for each filter, including those after a filter that did not match."""
        self.compile()
        return tuple([explain(event) for explain in self._compiled or ()])

    def steps(self, event: CloudEvent) -> Generator[int | Work, None, tuple[FilterVerdict, ...]]:
        """Return the verdicts, computed in steps. Yield the units of work of each step. If a step would block
        the event loop for too long, yield the step itself as a function.
        """
        if not are_long(self._filters):
            verdicts = self(event)
            yield self.units + 1
            return verdicts
        found: list[FilterVerdict] = []
        yield lambda: found.extend(self(event))
        return tuple(found)

    def compile(self) -> None:
        """Compile the filters, unless this is done already."""
        if self._compiled is None:
            self._compiled = tuple(map(compile_explanation, self._filters))


def compile_explanation(one: Filter) -> Explain:
    """Return the function that gives the verdict of this filter for an event."""
    dialect, argument = dialect_of(one)
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
    """Return the explanation of a dialect whose argument has entries. It names the first entry that does not
    match, or all entries if all match.
    """
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
    """Return the verdict of a filter with inner filters.

    If one inner filter alone decided, the verdict names it. This is the first that does not match in ``all``,
    or the first that matches in ``any``.
    """
    one_settles = passes is (dialect == "any")
    settling = [each for each in inner if each.passes is passes] if one_settles else list(inner)
    if dialect == "not" or one_settles or len(inner) == 1:
        first = settling[0] if settling else inner[0]
        return FilterVerdict(dialect, passes, first.decided_by, first.because, inner)
    word = "all match" if passes else "none matches"
    return FilterVerdict(dialect, passes, f"{dialect} of {len(inner)} filters", word, inner)
