"""Filters and CloudEvents SQL as conditions of Spark over decoded columns (``tables.ATTRIBUTES``).

``condition`` compiles the filters of a route, a subscription or a replay: the seven dialects of
``app.filters``, with the same answers. What cannot be compiled faithfully is told in words, never
approximated.
"""

from app.pipeline.predicate.columns import DECODED, Columns
from app.pipeline.predicate.condition import Condition, Reason, condition, reasons

__all__ = ["DECODED", "Columns", "Condition", "Reason", "condition", "reasons"]
