"""The dialects as the Subscriptions API says (spec 6.1)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.event.value import AttributeType, CloudEvent, DataForm
from app.filters.dialects import COMPILERS, always, compile_filters
from app.filters.model import MAX_NESTED, Filter

EVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "/shop/berlin",
    "type": "com.example.order.created",
    "sequence": "5",
}
TEXT = st.text(min_size=1, max_size=6)
ATTRIBUTES = st.dictionaries(st.sampled_from(["a", "b", "c"]), TEXT, max_size=3)
ARGUMENT = st.dictionaries(st.sampled_from(["a", "b", "c"]), TEXT, min_size=1, max_size=3)
FILTER = st.tuples(st.sampled_from(["exact", "prefix", "suffix"]), ARGUMENT)


def made(filters: Iterable[Mapping[str, Any]]) -> list[Filter]:
    return [Filter.model_validate(each) for each in filters]


def wants(*filters: Mapping[str, Any], **parts: Any) -> bool:
    return compile_filters(made(filters))(CloudEvent(EVENT, **parts))


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        ({"exact": {"type": "com.example.order.created"}}, True),
        ({"exact": {"type": "com.example.order"}}, False),
        ({"exact": {"type": "COM.EXAMPLE.ORDER.CREATED"}}, False),  # case-sensitive
        ({"exact": {"sequence": "5"}}, True),  # an integer by its canonical text
        ({"exact": {"subject": "x"}}, False),  # missing is false
        ({"prefix": {"type": "com.example."}}, True),
        ({"prefix": {"type": "com.example.order.created"}}, True),
        ({"prefix": {"type": "Com."}}, False),
        ({"prefix": {"type": "example"}}, False),
        ({"prefix": {"subject": "x"}}, False),
        ({"suffix": {"type": ".created"}}, True),
        ({"suffix": {"type": ".deleted"}}, False),
        ({"suffix": {"type": ".Created"}}, False),
        ({"suffix": {"subject": "x"}}, False),
        ({"exact": {"id": "1", "source": "/shop/berlin"}}, True),
        ({"exact": {"id": "1", "source": "/shop"}}, False),  # all entries
        ({"prefix": {"source": "/shop", "type": "com", "id": "1"}}, True),
        ({"prefix": {"source": "/shop", "type": "com", "id": "2"}}, False),
        ({"all": [{"exact": {"id": "1"}}, {"prefix": {"type": "com."}}]}, True),
        ({"all": [{"exact": {"id": "1"}}, {"prefix": {"type": "org."}}]}, False),
        ({"all": [{"exact": {"id": "2"}}]}, False),
        ({"any": [{"exact": {"id": "2"}}, {"prefix": {"type": "com."}}]}, True),
        ({"any": [{"exact": {"id": "2"}}, {"prefix": {"type": "org."}}]}, False),
        ({"any": [{"suffix": {"subject": "x"}}]}, False),
        ({"not": {"exact": {"id": "1"}}}, False),
        ({"not": {"exact": {"id": "2"}}}, True),
        ({"not": {"exact": {"subject": "x"}}}, True),  # of what is missing
        ({"not": {"not": {"exact": {"id": "1"}}}}, True),
        ({"not": {"any": [{"exact": {"id": "2"}}, {"all": [{"exact": {"id": "1"}}]}]}}, False),
        ({"sql": "type LIKE 'com.example.%' AND sequence > 4"}, True),
        ({"sql": "sequence > 5"}, False),
        ({"sql": "subject = 'x' OR TRUE"}, False),  # an error never passes
        ({"sql": "id"}, False),  # nor does what is no Boolean
        ({"sql": "1"}, False),
        ({"not": {"sql": "subject = 'x'"}}, True),
    ],
)
def test_a_filter_means_what_the_draft_says(one: dict[str, Any], expected: bool) -> None:
    """Users bring filters from other systems; each row is a sentence of the draft."""
    assert wants(one) is expected


def test_no_filter_wants_everything() -> None:
    """Absent or empty is true; callers tell a catch-all by identity."""
    assert compile_filters([]) is always
    assert wants()


def test_all_filters_of_a_list_must_match() -> None:
    """The list is a conjunction, also of one dialect with itself."""
    assert wants(
        {"prefix": {"type": "com."}}, {"suffix": {"type": ".created"}}, {"exact": {"id": "1"}}
    )
    assert not wants(
        {"prefix": {"type": "com."}}, {"suffix": {"type": ".created"}}, {"exact": {"id": "2"}}
    )
    assert not wants({"prefix": {"type": "org."}}, {"suffix": {"type": ".created"}})


@given(ATTRIBUTES, st.lists(FILTER, max_size=4))
def test_compiled_filters_agree_with_the_definition(
    attributes: dict[str, str], filters: list[tuple[str, dict[str, str]]]
) -> None:
    """The closures are shortcuts; this is the definition written the slow way."""

    def holds(dialect: str, name: str, text: str) -> bool:
        if name not in attributes:
            return False
        value = attributes[name]
        return {
            "exact": value == text,
            "prefix": value[: len(text)] == text,
            "suffix": value[max(0, len(value) - len(text)) :] == text,
        }[dialect]

    expected = all(holds(d, name, text) for d, arg in filters for name, text in arg.items())
    predicate = compile_filters(made({dialect: argument} for dialect, argument in filters))
    assert predicate(CloudEvent(attributes)) is expected


def test_every_dialect_of_the_model_can_be_compiled() -> None:
    """A field that is added to Filter and forgotten in the table would fail at run time."""
    assert set(COMPILERS) == set(Filter.model_fields)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        ({}, "exactly one of exact, prefix, suffix, all, any, not, sql"),
        ({"exact": {"id": "1"}, "sql": "TRUE"}, "exactly one of"),
        ({"regex": {"id": "1"}}, "regex"),  # an unknown dialect must be refused
        ({"exact": {}}, "at least 1"),
        ({"exact": {"id": ""}}, "at least 1"),
        ({"exact": {"Id": "1"}}, "Id"),
        ({"all": []}, "at least 1"),
        ({"any": []}, "at least 1"),
        ({"not": [{"exact": {"id": "1"}}]}, "not"),
        ({"not": {"regex": {"id": "1"}}}, "not.regex"),
        ({"not_": {"exact": {"id": "1"}}}, "not_"),
        ({"sql": ""}, "at least 1"),
        ({"sql": "id ="}, "character 5: expected a value, found the end"),
        ({"all": [{"exact": {"id": "1"}}, {"sql": "id = 'x"}]}, "all.1.sql"),
    ],
)
def test_what_is_no_filter_is_refused_where_it_stands(one: dict[str, Any], said: str) -> None:
    """The draft: an unknown dialect MUST be refused when the subscription is made; so is an
    argument that cannot be evaluated."""
    with pytest.raises(ValidationError, match=re.escape(said)):
        Filter.model_validate(one)


def test_filters_may_be_nested_to_a_bound() -> None:
    """A document that is all brackets costs a message, not the stack."""

    def nested(levels: int) -> dict[str, Any]:
        one: dict[str, Any] = {"exact": {"id": "1"}}
        for _ in range(levels - 1):
            one = {"not": one}
        return one

    assert wants(nested(MAX_NESTED)) is (MAX_NESTED % 2 == 1)
    for levels in (MAX_NESTED + 1, 200, 400):
        with pytest.raises(ValidationError):
            Filter.model_validate(nested(levels))


def test_a_filter_is_written_as_it_was_read() -> None:
    """What an API returns can be pasted into the file: `not`, whatever the model calls it."""
    one = {"not": {"any": [{"exact": {"id": "1"}}, {"not": {"sql": "EXISTS subject"}}]}}
    assert Filter.model_validate(one).model_dump(mode="json", exclude_none=True) == one
    assert json.loads(Filter.model_validate(one).model_dump_json(exclude_none=True)) == one


def test_sql_sees_types_and_data() -> None:
    """The event, not only its texts: an Integer is one, and JSON data can be asked for."""
    integer = {"sequence": AttributeType.INTEGER}
    assert wants({"sql": "sequence IN (5, 6)"}, types=integer)
    order = {"data": b'{"order": {"total": 12}}', "data_form": DataForm.JSON}
    assert wants({"sql": "DATA('/order/total') > 10"}, **order)
    assert not wants({"sql": "DATA('/order/total') > 12"}, **order)
    assert not wants({"sql": "DATA('/order/total') > 10"})


@pytest.mark.parametrize(
    ("one", "told"),
    [
        ({"sql": "subject = 'x'"}, ["subject = 'x'"]),
        ({"not": {"sql": "subject = 'x'"}}, ["subject = 'x'"]),
        (
            {"any": [{"sql": "type > 1"}, {"sql": "sequence / 0 = 1"}]},
            ["type > 1", "sequence / 0 = 1"],
        ),
        ({"any": [{"exact": {"id": "1"}}, {"sql": "type > 1"}]}, []),  # decided before it
        ({"all": [{"sql": "id = '2'"}, {"sql": "type > 1"}]}, []),
        ({"sql": "id = '2'"}, []),
        ({"exact": {"subject": "x"}}, []),  # what is missing does not match, without an error
    ],
)
def test_an_expression_that_fails_is_told(one: dict[str, Any], told: list[str]) -> None:
    """Issue 16: an event is not filtered in silence because an expression could not be evaluated on it."""
    found: list[tuple[str, str]] = []
    event = CloudEvent(EVENT)
    compiled = compile_filters(made([one]), lambda of, text, failure: found.append((text, of.id)))
    assert compiled(event) is compile_filters(made([one]))(event)
    assert found == [(text, "1") for text in told]
