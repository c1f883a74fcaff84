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
            "all.0.sql: an event has no attribute data; look into the data by DATA('/a/b')",
        ),
        (
            {"sql": "1 + 2"},
            "sql: is of type Integer, not Boolean, and so never matches; compare it with a value",
        ),
        (
            {"sql": "LOWER(id)"},
            "sql: is of type String, not Boolean, and so never matches; compare it with a value",
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
