"""Filters that are legal, and that no event can pass."""

from __future__ import annotations

from typing import Any

import pytest

from app.filters.contradictions import contradictions
from app.filters.model import Filter


def found(*filters: dict[str, Any]) -> list[str]:
    return [
        f"{'.'.join(map(str, each.path))}: {each.message.removesuffix(', so no event passes')}"
        for each in contradictions([Filter.model_validate(one) for one in filters])
    ]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (
            [{"exact": {"type": "a"}}, {"exact": {"type": "b"}}],
            "1.exact: exact type 'a' and exact type 'b' never both match",
        ),
        (
            [{"all": [{"exact": {"type": "a"}}, {"prefix": {"type": "b"}}]}],
            "0.all.1.prefix: exact type 'a' and prefix type 'b' never both match",
        ),
        (
            [{"prefix": {"type": "a.b"}}, {"prefix": {"type": "a.c"}}],
            "1.prefix: prefix type 'a.b' and prefix type 'a.c' never both match",
        ),
        (
            [{"suffix": {"source": "/x"}}, {"exact": {"source": "/y"}}],
            "1.exact: suffix source '/x' and exact source '/y' never both match",
        ),
        (
            [{"exact": {"type": "a"}}, {"not": {"exact": {"type": "a"}}}],
            "1.not.exact: exact type 'a' and not exact type 'a' never both match",
        ),
        ([{"sql": "n > 10 AND n < 5"}], "0.sql: n > 10 and n < 5 never both match"),
        ([{"sql": "n >= 5 AND 5 > n"}], "0.sql: n >= 5 and 5 > n never both match"),
        (
            [{"sql": "DATA('/n') > 1.5 AND (id = 'a' AND DATA('/n') = 1)"}],
            "0.sql: DATA('/n') > 1.5 and DATA('/n') = 1 never both match",
        ),
        (
            [{"sql": "type IN ('a', 'b')"}, {"exact": {"type": "c"}}],
            "1.exact: type IN ('a', 'b') and exact type 'c' never both match",
        ),
        ([{"sql": "id = 'a' AND id != 'a'"}], "0.sql: id = 'a' and id != 'a' never both match"),
        (
            [{"any": [{"sql": "n = 1 AND n = 2"}, {"exact": {"type": "a"}}]}],
            "0.any.0.sql: n = 1 and n = 2 never both match",
        ),
    ],
)
def test_a_contradiction_is_found(filters: list[dict[str, Any]], expected: str) -> None:
    assert found(*filters) == [expected]


@pytest.mark.parametrize(
    "filters",
    [
        [{"any": [{"exact": {"type": "a"}}, {"exact": {"type": "b"}}]}],
        [{"exact": {"type": "a"}}, {"exact": {"source": "b"}}],
        [{"exact": {"type": "a.b"}}, {"prefix": {"type": "a."}}, {"suffix": {"type": ".b"}}],
        [{"prefix": {"type": "a"}}, {"prefix": {"type": "a.b"}}, {"suffix": {"type": "z"}}],
        [{"sql": "n > 10 OR n < 5"}],
        [{"sql": "n > 10 AND n < 5 OR id = 'a'"}],
        [{"sql": "n >= 5 AND n <= 5"}],
        [{"sql": "n = '5' AND n = 5"}],  # the attribute is cast
        [{"sql": "n != 1 AND n != 2"}],
        [{"exact": {"type": "a"}}, {"not": {"exact": {"type": "b"}}}],
        [{"not": {"exact": {"type": "a", "id": "1"}}}, {"exact": {"type": "a"}}],
    ],
)
def test_what_can_match_is_no_contradiction(filters: list[dict[str, Any]]) -> None:
    """Warnings that come for nothing teach people not to read them."""
    assert found(*filters) == []
