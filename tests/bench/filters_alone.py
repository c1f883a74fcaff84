"""What filters alone cost, in this process: typical ones beside ``exact``, the cheapest there is."""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time
from typing import Any

import table
from bench_events import attributes, body

from app.event.value import CloudEvent, DataForm
from app.filters.dialects import Predicate, compile_filters
from app.filters.model import Filter
from app.runtime.heap import settle_heap

EXACT = {"exact": {"type": "com.example.order.created"}}
FILTERS: Sequence[tuple[str, dict[str, Any], float]] = (
    ("prefix", {"prefix": {"type": "com.example."}}, 6),
    ("not of any of two", {"not": {"any": [EXACT, {"exact": {"id": "0"}}]}}, 8),
    ("sql: type = '...'", {"sql": "type = 'com.example.order.created'"}, 5),
    ("sql: type LIKE 'com.example.%'", {"sql": "type LIKE 'com.example.%'"}, 8),
    ("sql: type LIKE '%.order.%'", {"sql": "type LIKE '%.order.%'"}, 8),
    ("sql: source IN (three)", {"sql": "source IN ('/a', '/b', '/c')"}, 8),
    (
        "sql: three conditions, one of integers",
        {"sql": "type LIKE 'com.%' AND id != '' AND LENGTH(source) > 2"},
        40,
    ),
    ("sql: EXISTS missing AND ...", {"sql": "EXISTS missing AND missing = 'x'"}, 5),
    ("sql: missing = 'x', an error", {"sql": "missing = 'x'"}, 40),
    ("sql: DATA('/order') of 0.6 kB", {"sql": "DATA('/order') = 'x'"}, 150),
)
"""Name, filter, and how many times the cost of ``exact`` it may be."""

PREFACE = """## Filters

Filters alone, in one process, over events that differ. The floor is the filter `exact` on the type.
"""
HEADINGS = table.HEADINGS[:-1]


class FilterRow(table.Row):
    """Two more digits than the rows of whole events, and no memory to speak of."""

    def cells(self) -> list[str]:
        measured, floor = (table.spread(values, digits=3) for values in (self.measured, self.floor))
        cells = super().cells()
        return [cells[0], measured, f"{floor} ({self.floor_name})", *cells[3:-1]]


def measure(rounds: int, count: int) -> list[FilterRow]:
    """Rounds of each filter and of ``exact`` alternate, over events that differ."""
    events = [_event(number) for number in range(count)]
    exact = _compiled(EXACT)
    settle_heap()  # as the service does
    rows = []
    for name, one, most in FILTERS:
        row, predicate = FilterRow(f"filter: {name}", "exact", most), _compiled(one)
        _cost(predicate, events)  # warm
        for _ in range(rounds):
            row.measured.append(_cost(predicate, events))
            row.floor.append(_cost(exact, events))
        rows.append(row)
    return rows


def _compiled(one: dict[str, Any]) -> Predicate:
    return compile_filters([Filter.model_validate(one)])


def _event(number: int) -> CloudEvent:
    return CloudEvent(
        {"specversion": "1.0", **attributes(number)}, data=body(number), data_form=DataForm.JSON
    )


def _cost(predicate: Predicate, events: Sequence[CloudEvent]) -> float:
    """Microseconds of CPU an event, the loop around it included."""
    before = process_time()
    for event in events:
        predicate(event)
    return 1e6 * (process_time() - before) / len(events)
