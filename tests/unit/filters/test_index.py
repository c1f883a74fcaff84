"""Which types a list of filters can let pass: what many subscriptions are found by."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.event.value import CloudEvent
from app.filters.dialects import compile_filters
from app.filters.index import Types, exact_values_of, types_of
from app.filters.model import Filter
from filter_strategies import by_type


def made(*filters: dict[str, Any]) -> list[Filter]:
    return [Filter.model_validate(each) for each in filters]


def types(*exact: str, prefixes: tuple[str, ...] = ()) -> Types:
    return Types(frozenset(exact), frozenset(prefixes))


A, B = {"exact": {"type": "a"}}, {"exact": {"type": "b"}}
LONG, SHORT = {"prefix": {"type": "com.x."}}, {"prefix": {"type": "com."}}
OTHER = {"exact": {"source": "/s"}}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], None),
        ([OTHER], None),
        ([A], types("a")),
        ([LONG], types(prefixes=("com.x.",))),
        ([{"exact": {"type": "a", "source": "/s"}}], types("a")),
        ([{"suffix": {"type": ".a"}}], None),
        ([{"not": A}], None),
        ([A, OTHER], types("a")),
        ([A, B], types()),  # never passes
        ([LONG, SHORT], types(prefixes=("com.x.",))),
        ([LONG, {"exact": {"type": "com.x.y"}}], types("com.x.y")),
        ([LONG, {"exact": {"type": "com.y"}}], types()),
        ([{"all": [A, OTHER]}], types("a")),
        ([{"any": [A, B]}], types("a", "b")),
        ([{"any": [A, LONG]}], types("a", prefixes=("com.x.",))),
        ([{"any": [A, OTHER]}], None),
        ([{"any": [A, OTHER]}, LONG], types(prefixes=("com.x.",))),
        ([{"sql": "type = 'a'"}], types("a")),
        ([{"sql": "type IN ('a', 'b')"}], types("a", "b")),
        ([{"sql": "type NOT IN ('a', 'b')"}], None),
        ([{"sql": "type LIKE 'com.x.%'"}], types(prefixes=("com.x.",))),
        ([{"sql": "type LIKE 'com._.%'"}], types(prefixes=("com.",))),
        ([{"sql": "type LIKE '%.x'"}], None),
        ([{"sql": "type NOT LIKE 'com.x.%'"}], None),
        ([{"sql": "type = 'a' AND n > 5"}], types("a")),
        ([{"sql": "type = 'a' OR type LIKE 'b%'"}], types("a", prefixes=("b",))),
        ([{"sql": "type = 'a' OR n > 5"}], None),
        ([{"sql": "type = 'a' AND n > 5 OR TRUE"}], None),
        ([{"sql": "NOT type = 'a'"}], None),
        ([{"sql": "type != 'a'"}], None),
        ([{"sql": "type = 5"}], None),
    ],
)
def test_types_are_what_the_filters_leave(
    filters: list[dict[str, Any]], expected: Types | None
) -> None:
    """None is any type: such a subscription is asked about every event."""
    assert types_of(made(*filters)) == expected


@given(
    st.lists(by_type, max_size=3),
    st.text("ab", min_size=1, max_size=3),
    st.text("ab", min_size=1, max_size=3),
)
def test_no_event_that_passes_is_outside_of_the_types(
    filters: list[dict[str, Any]], kind: str, name: str
) -> None:
    """An index that leaves out a subscription loses its events."""
    found = types_of(made(*filters))
    if compile_filters(made(*filters))(CloudEvent({"type": kind, "id": name})):
        assert found is None or found.holds(kind)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], {}),
        ([{"exact": {"type": "a", "tenant": "t"}}], {"tenant": {"t"}}),
        ([{"prefix": {"tenant": "t"}}], {}),
        ([{"all": [{"exact": {"tenant": "t"}}, {"suffix": {"id": "x"}}]}], {"tenant": {"t"}}),
        (
            [{"any": [{"exact": {"tenant": "t"}}, {"exact": {"tenant": "u", "id": "1"}}]}],
            {"tenant": {"t", "u"}},
        ),
        ([{"any": [{"exact": {"tenant": "t"}}, {"exact": {"id": "1"}}]}], {}),
        ([{"exact": {"tenant": "t"}}, {"exact": {"tenant": "u"}}], {"tenant": set()}),
        ([{"not": {"exact": {"tenant": "t"}}}], {}),
        ([{"sql": "tenant = 't'"}], {}),
    ],
)
def test_exact_values_are_what_the_filters_demand(
    filters: list[dict[str, Any]], expected: dict[str, set[str]]
) -> None:
    """Attributes without demanded values are left out."""
    assert exact_values_of(made(*filters)) == expected


@given(
    st.lists(by_type, max_size=3),
    st.text("ab", min_size=1, max_size=3),
    st.text("ab", min_size=1, max_size=3),
)
def test_every_event_that_passes_has_the_exact_values(
    filters: list[dict[str, Any]], kind: str, name: str
) -> None:
    """An index that leaves out a subscription loses its events."""
    found = exact_values_of(made(*filters))
    if compile_filters(made(*filters))(CloudEvent({"type": kind, "id": name})):
        assert name in found.get("id", {name})
