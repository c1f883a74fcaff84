"""The first route that matches, found without asking all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.event.memo import LENGTH
from app.event.value import CloudEvent
from app.filters.dialects import compile_filters
from app.model.route import Route
from app.routing.rules import FEW, NoRoute, Rules
from filter_strategies import by_type


def rules(filters: list[list[dict[str, Any]]]) -> Rules[str]:
    """Routes with these filters, each compiled to its name."""
    to = {"broker": "log", "topic": "t"}
    routes = [
        Route.model_validate({"name": f"r{n}", "filters": each, "to": to})
        for n, each in enumerate(filters)
    ]
    return Rules(routes, lambda route, _setting: route.name)


def event(kind: str | None, id_: str = "1") -> CloudEvent:
    return CloudEvent({"id": id_} | ({} if kind is None else {"type": kind}))


@given(
    st.lists(st.lists(by_type, max_size=2), min_size=FEW - 2, max_size=3 * FEW),
    st.lists(
        st.tuples(st.none() | st.text("ab", min_size=1, max_size=3), st.text("ab")), max_size=5
    ),
)
def test_the_order_of_the_file_decides_however_many_there_are(
    filters: list[list[dict[str, Any]]], sent: list[tuple[str | None, str]]
) -> None:
    """As if each were asked in turn."""
    found = rules(filters)
    compiled = [
        compile_filters(
            Route.model_validate(
                {"name": "r", "filters": each, "to": {"broker": "log", "topic": "t"}}
            ).filters
        )
        for each in filters
    ]
    for each in (event(*words) for words in sent):
        due = next((f"r{n}" for n, wants in enumerate(compiled) if wants(each)), None)
        if due is None:
            with pytest.raises(NoRoute):
                found.first(each)
        else:
            assert found.first(each) == due


def test_of_many_routes_those_are_asked_whose_type_it_is() -> None:
    """What a choice costs does not grow with the number of routes."""
    found = rules([[{"exact": {"type": f"t{n}"}}] for n in range(1_000)] + [[]])
    assert (found.first(event("t999")), found.first(event("other"))) == ("r999", "r1000")
    assert [len(found._by_type[kind]) for kind in ("t999", "other")] == [2, 1]


def test_types_that_senders_make_up_are_remembered_within_bounds() -> None:
    found = rules([[{"exact": {"type": f"t{n}"}}] for n in range(2 * FEW)] + [[]])
    for n in range(5_000):
        assert found.first(event(f"made up {n}")) == f"r{2 * FEW}"
    assert len(found._by_type) <= 1_024


def test_long_types_are_routed_and_not_remembered() -> None:
    """A type may be as long as a body: a thousand of them would fill the memory (rule 8)."""
    found = rules([[{"prefix": {"type": f"t{n}."}}] for n in range(FEW + 1)])
    long = "t3." + "x" * LENGTH
    assert found.first(event(long)) == "r3"
    assert long not in found._by_type
