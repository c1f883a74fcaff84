"""The filters of one subscription. The log that reads for the subscription and the worker of the subscription
both evaluate them through this module."""

from __future__ import annotations

from collections.abc import Sequence

from app.event.value import CloudEvent
from app.filters.cesql.expression import Failed, ignore
from app.filters.cesql.values import Failure
from app.filters.dialects import Predicate, can_fail, compile_filters, units_of
from app.filters.index import exact_values_of, types_of
from app.filters.model import Filter


class Selection:
    """The filters of one subscription, compiled.

    Attributes:
        holds: A function that returns True if the subscription wants an event.
        failed: True if an SQL expression failed in the last call of ``holds``.
        types: The types that a wanted event can have; None for any type.
        exact: The exact values of other attributes that a wanted event can have.
        units: The work that one event may cause at most, as ``units_of`` counts it.

    Args:
        failed: Called for each SQL expression that fails, even if the event is wanted anyway.
    """

    def __init__(self, filters: Sequence[Filter], failed: Failed = ignore) -> None:
        self.types = types_of(filters)
        self.exact = exact_values_of(filters)
        self.units = units_of(filters)
        self.failed = False
        self._report = failed
        self._compiled = compile_filters(filters, self._fail)
        self.holds: Predicate = self._watched if can_fail(filters) else self._compiled

    def _watched(self, event: CloudEvent) -> bool:
        self.failed = False
        return self._compiled(event)

    def _fail(self, event: CloudEvent, expression: str, failure: Failure) -> None:
        self.failed = True
        self._report(event, expression, failure)
