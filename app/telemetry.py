"""Logging set-up, and counters that cost the hot path one integer addition.

The registry of each part is a plain object with integers; ``api`` turns them into Prometheus text.
Labels are bounded: routes, subscriptions and brokers come from the configuration, never from a
request.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping

LABEL_BOUND = 1000  # series of one metric; beyond it values fall under "other" (rule 8)


class Counters:
    """Named integers with labels: ``counters.add("published", route)``. Not thread-safe by design:
    the event loop alone writes.
    """

    def __init__(self) -> None:
        self._values: dict[str, Counter[tuple[str, ...]]] = {}

    def add(self, name: str, *labels: str, by: int = 1) -> None:
        series = self._values.get(name)
        if series is None:
            series = self._values[name] = Counter()
        if labels not in series and len(series) >= LABEL_BOUND:
            labels = ("other",) * len(labels)
        series[labels] += by

    def series(self, name: str) -> Counter[tuple[str, ...]]:
        """One metric by its labels, for a hot path whose labels are few by nature: add to it."""
        return self._values.setdefault(name, Counter())

    def values(self) -> Mapping[str, Mapping[tuple[str, ...], int]]:
        return self._values

    def total(self, name: str) -> int:
        return sum(self._values.get(name, {}).values())


def set_up_logging(level: str, *, as_json: bool) -> None:
    """One line an entry on standard error. Event data is never logged (core: privacy)."""
    handler = logging.StreamHandler()
    people = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s  %(message)s")
    handler.setFormatter(_JsonLines() if as_json else people)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class _JsonLines(logging.Formatter):
    """One object an entry, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "at": self.formatTime(record),
            "level": record.levelname,
            "part": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)
