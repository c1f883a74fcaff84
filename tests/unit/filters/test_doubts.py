"""Filters that are legal and cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest

from app.filters.doubts import doubts
from app.filters.model import Filter
from cesql_table import table


def said(one: dict[str, Any]) -> list[str]:
    return [
        f"{'.'.join(map(str, each.path))}: {each.message}; {each.cure}"
        for each in doubts(Filter.model_validate(one))
    ]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (
            {"sql": "LENGHT(id) > 1"},
            "sql: there is no function LENGHT of 1 argument; did you mean LENGTH?",
        ),
        (
            {"any": [{"exact": {"id": "1"}}, {"not": {"sql": "LEFT(id) = 'a'"}}]},
            "any.1.not.sql: there is no function LEFT of 1 argument; give LEFT the arguments that it takes",
        ),
        (
            {"all": [{"sql": "data = 'x'"}]},
            "all.0.sql: The attribute data does not exist in any event; read the data with DATA('/a/b')",
        ),
        (
            {"sql": "1 + 2"},
            "sql: is of type Integer, not Boolean, so no event matches; compare the expression with a value",
        ),
        (
            {"sql": "subject = 'a' AND time > '2024'"},
            (
                "sql: The part time > '2024' always fails: time is no number; "
                "compare times: TIME(time) > TIME('2026-01-01T00:00:00Z')"
            ),
        ),
        (
            {"sql": "DATA('/rank') > 'high'"},
            (
                "sql: The part DATA('/rank') > 'high' always fails: 'high' is no number of 34 digits; "
                "use > only for numbers, and =, != or LIKE for texts"
            ),
        ),
        (
            {"sql": "id = 'a' OR INT('x') = 1"},
            (
                "sql: The part INT('x') = 1 always fails: 'x' is no 32-bit integer; "
                "correct or remove this part, because no event matches it"
            ),
        ),
        (
            {"sql": "priority % 0 = 1"},
            "sql: The part priority % 0 always fails: it divides by 0; divide by another number",
        ),
        (
            {"sql": "DATA('/total') / 1.5 > 100"},
            (
                "sql: The part DATA('/total') / 1.5 fails if the result has endless digits, as 1 / 3 has; "
                "multiply the other side instead, or divide whole numbers: INT(DATA('/n')) / 3"
            ),
        ),
        (
            {"sql": "LOWER(id)"},
            "sql: is of type String, not Boolean, so no event matches; compare the expression with a value",
        ),
    ],
)
def test_what_cannot_be_meant_is_told(one: dict[str, Any], expected: str) -> None:
    """`check` warns before somebody waits for events that never come."""
    assert said(one) == [expected]


@pytest.mark.parametrize(
    "one",
    [
        {"exact": {"id": "1"}},
        {"sql": "flag"},  # may be a Boolean
        {"sql": "DATA('/paid') AND LENGTH(id) > 1"},
        {"not": {"sql": "EXISTS subject"}},
        {"sql": "DATA('/total') > '99.5' AND DATA('/total') / 4 < 1.5 AND subject > '5'"},
        {"sql": "INT(DATA('/total')) / 3 > 2"},
    ],
)
def test_what_may_be_meant_is_left_alone(one: dict[str, Any]) -> None:
    """A warning that is wrong teaches people to overlook warnings."""
    assert said(one) == []


def test_whatever_is_true_is_left_alone() -> None:
    """Over the whole table: what can match is not said to never match."""
    cases = [case for cases in table().values() for case in cases if case.value is True]
    told = [text for case in cases for text in said({"sql": case.expression}) if "never" in text]
    assert len(cases) > 200
    assert told == []
