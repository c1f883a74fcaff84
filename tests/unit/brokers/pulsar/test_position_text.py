"""Positions of Pulsar as text and as numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.brokers.pulsar.positions import Position, full_name, read_position, wire_name
from app.errors import PositionOutOfRange

places = st.builds(
    Position, st.integers(0, 2**31 - 1), st.integers(0, 2**20 - 1), st.integers(-1, 4094)
)


@given(places)
def test_a_position_comes_back_from_its_text(place: Position) -> None:
    """Receipts, starts and replays pass positions as text (design: values)."""
    assert read_position(place.text) == place


@given(places, places)
def test_offsets_are_ordered_as_places_are(one: Position, other: Position) -> None:
    """The store and the window count with numbers."""
    assert (one < other) == (one.offset < other.offset)
    assert 0 <= one.offset < 2**63


@pytest.mark.parametrize(
    "text", ["", "7", "1:", ":1", "1:-1", "1:2:3:4", "a:b", "1:2:", "\u0661:2"]
)
def test_other_text_is_outside_of_every_log(text: str) -> None:
    """It is never guessed where a start may have meant (rule 10)."""
    with pytest.raises(PositionOutOfRange):
        read_position(text)


def test_topics_may_name_their_namespace() -> None:
    """Short names are of the configured one."""
    assert full_name("orders", "public/default") == "public/default/orders"
    assert full_name("shop/eu/orders", "public/default") == "shop/eu/orders"
    assert wire_name("persistent://a/b/c", "x/y", 3) == "persistent://a/b/c-partition-3"
    assert wire_name("orders", "x/y", None) == "persistent://x/y/orders"
