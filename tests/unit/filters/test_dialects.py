"""exact, prefix and suffix as the Subscriptions API says (spec 6.1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.filters.dialects import DIALECTS, always, compile_filters
from app.model.route import Filter

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


def wants(*filters: dict[str, dict[str, str]]) -> bool:
    return compile_filters([Filter(**each) for each in filters])(EVENT)


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
    ],
)
def test_a_filter_means_what_the_draft_says(one: dict[str, dict[str, str]], expected: bool) -> None:
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
    predicate = compile_filters([Filter(**{dialect: argument}) for dialect, argument in filters])
    assert predicate(attributes) is expected


def test_every_dialect_of_the_model_can_be_compiled() -> None:
    """A field that is added to Filter and forgotten in the table would fail at run time."""
    assert set(DIALECTS) == set(Filter.model_fields)
