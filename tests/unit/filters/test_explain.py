"""Why a filter says what it says: the part that decided, and the values it saw."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.event.value import CloudEvent, DataForm
from app.filters.dialects import compile_filters
from app.filters.explain import Explainer, FilterVerdict, compile_explanation
from app.filters.model import Filter
from cesql_making import random_cases
from cesql_table import EVENT, event_of
from hostile_json import VALUES

ORDER = CloudEvent({**EVENT, "note": "x" * 100}, data=b'{"total": 12}', data_form=DataForm.JSON)


def explained(one: dict[str, Any]) -> FilterVerdict:
    return compile_explanation(Filter.model_validate(one))(ORDER)


@pytest.mark.parametrize(
    ("one", "passes", "decided_by", "because"),
    [
        ({"exact": {"id": "A1"}}, True, "exact id 'A1'", "id is 'A1'"),
        ({"exact": {"id": "B"}}, False, "exact id 'B'", "id is 'A1'"),
        ({"prefix": {"time": "2"}}, False, "prefix time '2'", "the event has no time"),
        (
            {"suffix": {"id": "1", "type": ".deleted"}},
            False,
            "suffix type '.deleted'",
            "type is 'com.example.order.created'",
        ),
        (
            {"exact": {"id": "A1", "subject": "blue"}},
            True,
            "exact id 'A1', subject 'blue'",
            "id is 'A1', subject is 'blue'",
        ),
        (
            {"all": [{"exact": {"id": "A1"}}, {"exact": {"id": "B"}}]},
            False,
            "exact id 'B'",
            "id is 'A1'",
        ),
        (
            {"all": [{"exact": {"id": "A1"}}, {"prefix": {"id": "A"}}]},
            True,
            "all of 2 filters",
            "all match",
        ),
        (
            {"any": [{"exact": {"id": "B"}}, {"prefix": {"id": "A"}}]},
            True,
            "prefix id 'A'",
            "id is 'A1'",
        ),
        (
            {"any": [{"exact": {"id": "B"}}, {"prefix": {"id": "C"}}]},
            False,
            "any of 2 filters",
            "none matches",
        ),
        ({"not": {"exact": {"id": "A1"}}}, False, "exact id 'A1'", "id is 'A1'"),
        ({"not": {"exact": {"id": "B"}}}, True, "exact id 'B'", "id is 'A1'"),
        (
            {"sql": "id = 'A1' AND subject = 'red' AND EXISTS time"},
            False,
            "subject = 'red'",
            "false: subject is 'blue'",
        ),
        (
            {"sql": "id = 'B' OR subject = 'blue'"},
            True,
            "subject = 'blue'",
            "true: subject is 'blue'",
        ),
        (
            {"sql": "id = 'B' OR subject = 'red'"},
            False,
            "id = 'B' OR subject = 'red'",
            "false: id is 'A1', subject is 'blue'",
        ),
        (
            {"sql": "id = 'A1' AND subject = 'blue'"},
            True,
            "id = 'A1' AND subject = 'blue'",
            "true: id is 'A1', subject is 'blue'",
        ),
        (
            {"sql": "(id = 'A1' AND (TRUE AND NOT subject LIKE 'b%')) OR FALSE XOR id = 'B'"},
            False,
            "(NOT subject) LIKE 'b%'",
            "'blue' is neither true nor false",
        ),
        ({"sql": "NOT (subject LIKE 'b%')"}, False, "subject LIKE 'b%'", "true: subject is 'blue'"),
        ({"sql": "time = 'x' OR TRUE"}, False, "time = 'x'", "the event has no time"),
        ({"sql": "EXISTS time"}, False, "EXISTS time", "false: the event has no time"),
        ({"sql": "EXISTS subject"}, True, "EXISTS subject", "true: the event has subject"),
        (
            {"sql": "DATA('/total') > 12"},
            False,
            "DATA('/total') > 12",
            "false: DATA('/total') is '12'",
        ),
        ({"sql": "id"}, False, "id", "a String, not a Boolean: 'A1': id is 'A1'"),
        (
            {"sql": "LENGHT(id) > 1"},
            False,
            "LENGHT(id) > 1",
            "there is no function LENGHT of 1 argument",
        ),
        (
            {"exact": {"note": "y"}},
            False,
            "exact note 'y'",
            "note is '" + "x" * 39 + "…'",
        ),
    ],
)
def test_a_verdict_names_what_decided(
    one: dict[str, Any], passes: bool, decided_by: str, because: str
) -> None:
    """People cannot tell why a filter matched; the answer is the smallest part that settles it."""
    verdict = explained(one)
    assert (verdict.passes, verdict.decided_by, verdict.because) == (passes, decided_by, because)


def test_every_filter_inside_has_its_own_verdict() -> None:
    """Also those behind the one that decided: mending one must not reveal the next."""
    verdict = explained({"all": [{"exact": {"id": "B"}}, {"not": {"sql": "id = 'A1'"}}]})
    assert [(each.dialect, each.passes) for each in verdict.inner] == [
        ("exact", False),
        ("not", False),
    ]
    assert [each.dialect for each in verdict.inner[1].inner] == ["sql"]


def test_the_verdicts_are_those_of_the_hot_path() -> None:
    """An explanation that differs from what happens is worse than none."""
    for case in random_cases(1_000, seed=11):
        event = event_of(case.event)
        filters = [Filter(sql=case.expression)]
        (verdict,) = Explainer(filters)(event)
        assert verdict.passes is compile_filters(filters)(event)
        assert verdict.decided_by
        assert verdict.because


@given(st.integers(0, 10_000))
def test_the_part_that_decided_decides_alone(seed: int) -> None:
    """Where the whole is true or false without an error and has no NOT in it, so is the part."""
    (case,) = random_cases(1, seed)
    event = event_of(case.event)
    (whole,) = Explainer([Filter(sql=case.expression)])(event)
    (part,) = Explainer([Filter(sql=whole.decided_by)])(event)
    assert part.decided_by == whole.decided_by
    assert part.because == whole.because


@pytest.mark.parametrize("other", VALUES)
def test_data_is_seen_whatever_stands_beside_what_is_asked_for(other: bytes) -> None:
    event = CloudEvent(EVENT, b'{"a":%b,"\\ud83d":1,"k":"v","n":12}' % other, DataForm.JSON)
    sql = "DATA('/k') = 'v' AND DATA('/n') = 12 AND HAS_DATA('/a') AND NOT HAS_DATA('/b')"
    assert compile_filters([Filter(sql=sql)])(event)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (rb'"\ud83d"', "the text at '/k' has an unpaired surrogate"),
        (b"9" * 5000, "the number at '/k' is beyond 34 digits, or exponents of 6144"),
        (b"1e9999", "the number at '/k' is beyond 34 digits, or exponents of 6144"),
    ],
)
def test_what_is_asked_for_and_no_value_is_named(value: bytes, why: str) -> None:
    event = CloudEvent(EVENT, b'{"k":%b}' % value, DataForm.JSON)
    verdict = compile_explanation(Filter(sql="DATA('/k') = 'v'"))(event)
    assert not verdict.passes
    assert why in verdict.because
