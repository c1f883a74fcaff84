"""Filters over rows give the answers of ``app.filters``: event for event, expression for expression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.event.value import CloudEvent
from app.filters.model import Filter
from app.pipeline.filtering import RowFilter, filter_inputs
from cesql_table import event_of
from example_counts import examples
from filter_strategies import nested
from filtering_events import answers, batch, events, expressions

DIALECTS: list[dict[str, Any]] = [
    {"exact": {"type": "com.example.order.created"}},
    {"exact": {"subject": "blue", "id": "A1"}},
    {"exact": {"number": "5"}},
    {"exact": {"time": "2024-02-29T12:00:00.10Z"}},
    {"prefix": {"type": "com.example."}},
    {"prefix": {"myext": "my"}},
    {"suffix": {"type": ".created", "source": "shop"}},
    {"not": {"exact": {"missing": "x"}}},
    {"not": {"prefix": {"subject": "b"}}},
    {"not": {"sql": "missing = 'x'"}},
    {"not": {"not": {"sql": "number > 3"}}},
    {"all": [{"exact": {"id": "A1"}}, {"not": {"sql": "flag"}}]},
    {"any": [{"sql": "missing"}, {"suffix": {"myext": "value"}}, {"sql": "number < 0"}]},
    {"any": [{"not": {"any": [{"exact": {"nope": "x"}}, {"sql": "flag"}]}}]},
    {"sql": "TRUE"},
    {"sql": "DATA('/a') = 1"},
    {"any": [{"sql": "HAS_DATA('/a')"}, {"exact": {"subject": "blue"}}]},
]
EVENTS = events(60, seed=8)
ROWS = batch(EVENTS)


def passing(filters: Sequence[Filter]) -> list[bool]:
    rows = RowFilter(filters).rows(ROWS)
    assert isinstance(rows, pa.Array)
    rows = rows.to_pylist()
    found = set(rows)
    assert rows == sorted(found)
    return [n in found for n in range(len(EVENTS))]


def differing(filters: Sequence[Filter]) -> list[str]:
    """Each filter that is answered otherwise of rows, with the events."""
    return [
        f"{one!r} of {event.attributes} {dict(event.types)}: {seen}"
        for one, due in zip(filters, answers(EVENTS, filters), strict=True)
        for event, seen, expected in zip(EVENTS, passing([one]), due, strict=True)
        if seen is not expected
    ]


def test_every_expression_has_the_answer_of_the_filters() -> None:
    """The table of CloudEvents SQL and expressions made by chance, those about data too, each on every event: a
    replay that chooses otherwise than a subscription replays the wrong events (issue 8 point 3).
    """
    assert differing([Filter(sql=text) for text in expressions(100, seed=8)]) == []


@pytest.mark.nightly
def test_expressions_made_by_chance_have_the_answers_of_the_filters() -> None:
    texts = expressions(6000, seed=88)
    assert len(texts) > 6000
    assert differing([Filter(sql=text) for text in texts]) == []


def test_all_dialects_have_the_answers_of_the_filters() -> None:
    """Subscriptions API: what an event lacks does not match, and so the ``not`` of it does."""
    assert differing([Filter.model_validate(one) for one in DIALECTS]) == []


@examples(50)
@given(st.lists(nested(st.sampled_from(DIALECTS), within=3), max_size=3))
def test_filters_in_filters_and_lists_of_them_have_their_answers(documents: list[Any]) -> None:
    filters = [Filter.model_validate(each) for each in documents]
    each_due = answers(EVENTS, filters)
    assert passing(filters) == [all(due[n] for due in each_due) for n in range(len(EVENTS))]


def test_a_combination_of_what_is_named_is_asked_about_once_a_batch() -> None:
    """Whatever else the events say."""
    many = [event_of({"id": f"{n}", "priority": n % 3, "text": f"{n}"}) for n in range(1_000)]
    wanted, asked = RowFilter([Filter(sql="priority > 0 AND EXISTS subject")]), list[CloudEvent]()
    holds = wanted._wants

    def counted(event: CloudEvent) -> bool:
        asked.append(event)
        return holds(event)

    wanted._wants = counted
    assert wanted.rows(batch(many)).to_pylist() == [n for n in range(1_000) if n % 3]
    assert len(asked) == 3


def test_a_batch_without_rows_has_none_that_pass() -> None:
    for one in DIALECTS:
        assert not len(RowFilter([Filter.model_validate(one)]).rows(batch([])))


def test_what_is_named_is_all_that_is_needed_of_a_row() -> None:
    """Rows travel with these columns alone."""
    assert filter_inputs([]).columns() == ("specversion",)
    both = [Filter(exact={"time": "x"}), Filter.model_validate({"not": {"sql": "EXISTS region"}})]
    assert filter_inputs(both).columns() == ("time_text", "extensions", "types")
    data = filter_inputs([Filter(sql="LENGTH(DATA('/a')) > 1")])
    assert data.columns() == ("datacontenttype", "data", "data_bytes", "data_form")
    for one in DIALECTS:
        filters = [Filter.model_validate(one)]
        narrow = ROWS.select(list(filter_inputs(filters).columns()))
        assert RowFilter(filters).rows(narrow) == RowFilter(filters).rows(ROWS)
