"""Filters and templates compared without an event, checked against events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.lint.reach import EarlierRoutes, feeds, may_both_match
from app.event.value import CloudEvent
from app.filters.dialects import compile_filters
from app.model.route import Filter, Route, Target
from app.routing.templates import BadTopic, compile_topic
from filter_strategies import nested

TEXT = st.text("ab", min_size=1, max_size=3)
NAME = st.sampled_from(["x", "y"])
PLAIN = st.builds(
    lambda dialect, argument: {dialect: argument},
    st.sampled_from(["exact", "prefix", "suffix"]),
    st.dictionaries(NAME, TEXT, min_size=1, max_size=2),
)
NESTED = nested(
    PLAIN | st.builds(lambda name, text: {"sql": f"{name} = '{text}'"}, NAME, TEXT), within=2
)
FILTERS = st.lists(st.builds(Filter.model_validate, PLAIN | NESTED), max_size=2)
EVENT = st.dictionaries(NAME, TEXT, max_size=2)


def wants(filters: list[Filter], attributes: dict[str, str]) -> bool:
    return compile_filters(filters)(CloudEvent(attributes))


@given(st.lists(FILTERS, max_size=4), FILTERS, EVENT)
def test_what_is_shadowed_never_matches_alone(
    routes: list[list[Filter]], later: list[Filter], event: dict[str, str]
) -> None:
    """The warning says "never": no event may prove it wrong."""
    earlier = EarlierRoutes()
    for each in routes:
        earlier.add(each)
    shadow = earlier.shadow_of(later)
    if shadow is not None and wants(later, event):
        assert wants(routes[shadow], event)


@given(st.lists(FILTERS, max_size=4), FILTERS)
def test_the_first_shadow_is_named_and_is_found_alone_as_well(
    routes: list[list[Filter]], later: list[Filter]
) -> None:
    together, alone = EarlierRoutes(), [EarlierRoutes() for _ in routes]
    for each, one in zip(routes, alone, strict=True):
        together.add(each)
        one.add(each)
    found = [n for n, one in enumerate(alone) if one.shadow_of(later) == 0]
    assert together.shadow_of(later) == min(found, default=None)


@given(FILTERS, FILTERS, EVENT)
def test_what_excludes_each_other_never_matches_together(
    one: list[Filter], other: list[Filter], event: dict[str, str]
) -> None:
    """Where a subscription is said to get nothing, it gets nothing."""
    if wants(one, event) and wants(other, event):
        assert may_both_match(one, other)


@given(
    FILTERS,
    EVENT,
    st.sampled_from(["t", "t.{x}", "{x}.{y}", "{y}", "{x}{y}", "a{y}-{x}a", "{x}{y}.{x}"]),
)
def test_a_topic_that_is_made_is_a_topic_that_is_fed(
    filters: list[Filter], event: dict[str, str], template: str
) -> None:
    """A false "no route can feed it" would send people looking for a fault that is not there."""
    target = Target(broker="b", topic=template)
    settings: dict[str, Any] = {"name": "r", "filters": filters, "to": [target]}
    if not wants(filters, event):
        return
    try:
        topic = compile_topic(template)(event)
    except BadTopic:
        return
    assert feeds(target, Route.model_validate(settings).filters, topic)


@pytest.mark.parametrize(
    ("template", "topic", "fed"),
    [
        ("{id}{type}", "a", False),
        ("{id}{type}", "ab", True),
        ("{x}{y}", "a", True),  # an extension may be empty
        ("a{subject ?? }", "a", True),
        ("a{subject ?? b}", "a", False),
        ("a{subject ?? b}", "ab", True),
        ("{x}-{y}-b", "a-b-b-b", True),
        ("{x}-{y}-b", "a-b", False),
        ("a{id}a", "aa", False),
        ("a{x}a", "aa", True),
        ("".join(f"{{x{n}}}" for n in range(30)) + "!", "a" * 249, False),
        ("-".join(f"{{x{n}}}" for n in range(30)) + "!", "-" * 249, False),
    ],
)
def test_a_template_is_matched_in_linear_time(template: str, topic: str, fed: bool) -> None:
    """Callers of the API write templates: thirty attributes must not be tried in every way (rule 8)."""
    assert feeds(Target(broker="b", topic=template), (), topic) is fed
