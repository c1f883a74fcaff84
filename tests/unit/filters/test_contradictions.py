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
            [{"exact": {"type": "a.b"}}, {"not": {"prefix": {"type": "a."}}}],
            "1.not.prefix: exact type 'a.b' and not prefix type 'a.' never both match",
        ),
        (
            [{"prefix": {"type": "a.b."}}, {"not": {"prefix": {"type": "a."}}}],
            "1.not.prefix: prefix type 'a.b.' and not prefix type 'a.' never both match",
        ),
        (
            [
                {"not": {"any": [{"exact": {"id": "1"}}, {"suffix": {"type": ".x"}}]}},
                {"exact": {"type": "a.x"}},
            ],
            "1.exact: not suffix type '.x' and exact type 'a.x' never both match",
        ),
        (
            [{"sql": "type LIKE 'com.%' AND type = 'org.x'"}],
            "0.sql: type LIKE 'com.%' and type = 'org.x' never both match",
        ),
        (
            [{"sql": "type LIKE 'com.a%' AND type LIKE 'com.b%'"}],
            "0.sql: type LIKE 'com.a%' and type LIKE 'com.b%' never both match",
        ),
        (
            [{"exact": {"type": "com.x"}}, {"sql": "type NOT LIKE 'com.%'"}],
            "1.sql: exact type 'com.x' and type NOT LIKE 'com.%' never both match",
        ),
        (
            [{"sql": "type LIKE '%.a_' AND NOT (type LIKE '%.a_')"}],
            "0.sql: type LIKE '%.a_' and NOT (type LIKE '%.a_') never both match",
        ),
        (
            [{"sql": "EXISTS subject AND NOT EXISTS subject"}],
            "0.sql: EXISTS subject and NOT EXISTS subject never both match",
        ),
        ([{"sql": "n > 5 AND NOT (n > 3)"}], "0.sql: n > 5 and NOT (n > 3) never both match"),
        (
            [{"sql": "type = 'a' AND NOT (type = 'a')"}],
            "0.sql: type = 'a' and NOT (type = 'a') never both match",
        ),
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
        [
            {"not": {"all": [{"exact": {"type": "a"}}, {"exact": {"id": "1"}}]}},
            {"exact": {"type": "a"}},
        ],
        [{"not": {"prefix": {"type": "a.b."}}}, {"prefix": {"type": "a."}}],
        [{"sql": "type LIKE 'a%' AND type LIKE 'ab%' AND type LIKE '%c' AND type NOT LIKE 'b%'"}],
        [{"sql": "type LIKE '%' AND type LIKE 'a%c' AND type NOT LIKE 'a%d'"}],
        [{"sql": "n LIKE '5%' AND n = 5"}],  # the number is cast
        [{"sql": "NOT (n > 5) AND n > 3"}],
        [{"sql": "EXISTS subject AND NOT EXISTS time"}],
        [{"sql": "NOT (n > 5 AND n < 9) AND n = 12"}],
    ],
)
def test_what_can_match_is_no_contradiction(filters: list[dict[str, Any]]) -> None:
    """Warnings that come for nothing teach people not to read them."""
    assert found(*filters) == []
