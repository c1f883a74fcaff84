"""Filters to one condition. All seven dialects: a filter of a new one is a line in ``_COMPILERS``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from app.errors import SetupError
from app.filters.dialects import written
from app.filters.model import DIALECTS, Filter
from app.pipeline.predicate.cesql import compile_sql, refused_parts
from app.pipeline.predicate.columns import DECODED, Columns
from app.pipeline.predicate.parts import Refusal, balanced


class Reason(msgspec.Struct, frozen=True):
    """Why a part cannot be a condition of Spark. ``path`` leads to it (``filters[0].any[1].sql``); ``at`` is
    the character of a SQL expression, counted from 0.
    """

    path: str
    at: int
    why: str

    def __str__(self) -> str:
        return f"{self.path}, character {self.at + 1}: {self.why}"


class Condition(msgspec.Struct, frozen=True):
    """``column``   true where all filters pass; false or null, which is no, where they do not: it is for
                 ``where`` and ``when``, which take both alike. None where there are ``reasons``.
    ``reasons``  all that cannot be compiled; empty: everything was.
    """

    column: Column | None
    reasons: tuple[Reason, ...] = ()

    def required(self) -> Column:
        """The column. Raises SetupError that lists every reason."""
        if self.column is None:
            raise SetupError(
                "; ".join(map(str, self.reasons)),
                setting="filters",
                cure="say it with attributes, or filter what arrives by a subscription",
            )
        return self.column


def condition(
    filters: Sequence[Filter], columns: Columns = DECODED, *, path: str = "filters"
) -> Condition:
    """All of them must pass, none passes everything: as ``app.filters.dialects.compile_filters``. Spark must run.

    ``path``  before the number of a filter in reasons: ``routes[2].filters``.
    """
    refused = list(reasons(filters, path=path))
    if refused:
        return Condition(None, tuple(refused))
    found: list[Column] = []
    for n, one in enumerate(filters):
        try:
            found.append(_compiled(one, columns))
        except Refusal as refusal:
            refused.append(Reason(f"{path}[{n}]", refusal.at, refusal.why))
    if refused:
        return Condition(None, tuple(refused))
    return Condition(balanced(found or [F.lit(True)], Column.__and__))


def reasons(filters: Sequence[Filter], *, path: str = "filters") -> Iterator[Reason]:
    """What of the filters cannot be compiled, but for expressions that become too large; no Spark is asked."""
    for n, one in enumerate(filters):
        yield from _reasons(one, f"{path}[{n}]")


def _reasons(one: Filter, path: str) -> Iterator[Reason]:
    dialect, argument = written(one)
    path = f"{path}.{DIALECTS[dialect]}"
    if dialect == "sql":
        for at, why in refused_parts(argument):
            yield Reason(path, at, why)
    elif dialect == "not_":
        yield from _reasons(argument, path)
    elif dialect in {"all", "any"}:
        yield from reasons(argument, path=path)


def _compiled(one: Filter, columns: Columns) -> Column:
    dialect, argument = written(one)
    return _COMPILERS[dialect](argument, columns)


def _entries(
    matches: Callable[[Column, str], Column], argument: Mapping[str, str], columns: Columns
) -> Column:
    """A missing attribute is null, which does not match."""
    found = [matches(columns.attribute(name), text) for name, text in argument.items()]
    return balanced(found, Column.__and__)


def _each(
    join: Callable[[Column, Column], Column], argument: Sequence[Filter], columns: Columns
) -> Column:
    return balanced([_compiled(one, columns) for one in argument], join)


def _not(argument: Filter, columns: Columns) -> Column:
    """What was null is false, and so its ``not`` is true."""
    return ~F.coalesce(_compiled(argument, columns), F.lit(False))


_COMPILERS: Mapping[str, Callable[[Any, Columns], Column]] = {
    "exact": partial(_entries, Column.__eq__),
    "prefix": partial(_entries, Column.startswith),
    "suffix": partial(_entries, Column.endswith),
    "all": partial(_each, Column.__and__),
    "any": partial(_each, Column.__or__),
    "not_": _not,
    "sql": compile_sql,
}
