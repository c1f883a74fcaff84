"""Filters that never match, although no two conditions that must both hold contradict each other."""

from __future__ import annotations

from typing import Any

import pytest

from app.filters.contradictions import contradictions
from app.filters.impossible import impossible
from app.filters.model import Filter


def found(*filters: dict[str, Any]) -> list[str]:
    read = [Filter.model_validate(one) for one in filters]
    conflicts = bool([*contradictions(read)])
    return [
        f"{'.'.join(map(str, each.path))}: {each.message}"
        for each in impossible(read, conflicts=conflicts)
    ]


A, B, C = ({"exact": {"type": each}} for each in "abc")


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([{"sql": "false"}], "0.sql: FALSE never matches"),
        ([{"sql": "1 = 2"}], "0.sql: 1 = 2 never matches"),
        ([{"sql": "NOT true"}], "0.sql: NOT TRUE never matches"),
        ([{"sql": "type = 'a' AND false"}], "0.sql: FALSE never matches"),
        ([{"any": [A, {"sql": "3 < 2"}]}], "0.any.1.sql: 3 < 2 never matches"),
        (
            [{"exact": {"specversion": "2.0"}}],
            "0.exact: exact specversion '2.0' never matches, because filters see every event in version 1.0",
        ),
        (
            [{"sql": "specversion = '0.3'"}],
            "0.sql: specversion = '0.3' never matches, because filters see every event in version 1.0",
        ),
        (
            [{"not": {"exact": {"specversion": "1.0"}}}],
            "0.not.exact: not exact specversion '1.0' never matches, because filters see every event in version 1.0",
        ),
        (
            [{"prefix": {"data": "x"}}],
            "0.prefix: prefix data 'x' never matches, because data is no attribute",
        ),
    ],
)
def test_a_condition_that_no_event_meets(filters: list[dict[str, Any]], expected: str) -> None:
    assert found(*filters) == [expected]


@pytest.mark.parametrize(
    "filters",
    [
        [{"any": [A, B]}, C],
        [{"sql": "(type = 'a' OR type = 'b') AND type = 'c'"}],
        [{"sql": "type = 'a' OR type = 'b'"}, C],
        [{"all": [{"any": [A, B]}]}, {"not": {"any": [A, B]}}],
        [{"sql": "NOT (n > 5 AND n < 9) AND n = 7"}],
        [{"not": {"all": [A, {"exact": {"id": "1"}}]}}, A, {"sql": "id = '1'"}],
        [{"any": [A, B]}, {"any": [C, {"prefix": {"type": "d"}}]}],
        [{"sql": "n = 1 OR n = 2 AND n = 3"}],  # operators have equal precedence
    ],
)
def test_no_alternative_can_match(filters: list[dict[str, Any]]) -> None:
    (one,) = found(*filters)
    assert "never both match, and neither do the other alternatives" in one


@pytest.mark.parametrize(
    "filters",
    [
        [],
        [{"sql": "true"}],
        [{"any": [A, B]}, A],
        [{"sql": "(type = 'a' OR type = 'b') AND type = 'b'"}],
        [{"sql": "(type = 'a' XOR type = 'b') AND type = 'c'"}],  # not analysed
        [{"not": {"sql": "type = 'a'"}}, A],  # an expression that fails does not match either
        [{"exact": {"specversion": "1.0"}}],
        [{"prefix": {"specversion": "1."}}],
        [{"not": {"exact": {"specversion": "0.3"}}}],
        [{"not": {"exact": {"data": "x"}}}],
        [{"sql": "n = 1 AND n = 3 OR n = 2"}],
        [{"sql": "1 = '1'"}],  # the text is cast
        [{"sql": "ABS('x') = 1"}],  # app.filters.doubts reports what fails
        [A, B],  # app.filters.contradictions reports it
    ],
)
def test_what_can_match_is_not_reported(filters: list[dict[str, Any]]) -> None:
    """Warnings that come for nothing teach people not to read them."""
    assert found(*filters) == []


def test_many_alternatives_are_bounded() -> None:
    """Callers of the API write filters: without a bound, the product of the alternatives would never end."""
    many = [{"any": [{"exact": {"type": f"t{m}.{n}"}} for n in range(8)]} for m in range(12)]
    found(*many)
    assert found(*[{"any": [A, B]}] * 2_000, C) == []
