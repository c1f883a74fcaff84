"""What a group does not want is left out by its headers, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bindings.kafka import decode
from app.bindings.record import Record
from app.brokers.header_type import type_from_headers
from app.errors import SenderError
from app.filters.index import Types

WANTED = Types(exact=frozenset(["a"]), prefixes=frozenset(["ab."]))
EVENT = {"ce_specversion": b"1.0", "ce_id": b"1", "ce_source": b"/s", "ce_type": b"other"}
values = st.sampled_from(
    [
        *(None, b"", b"1.0", b"0.3", b"a", b"ab.c", b"other", b"\xff", b"application/json"),
        *(b"application/cloudevents+json", b" Application/CloudEvents", b"/s"),
    ]
)


def is_unwanted(headers: list[tuple[str, bytes | None]], types: Types) -> bool:
    kind = type_from_headers(headers)
    return kind is not None and not types.holds(kind)


def headers(**changed: bytes | None) -> list[tuple[str, bytes | None]]:
    return list({**EVENT, **changed}.items())


@pytest.mark.parametrize(
    ("changed", "unwanted"),
    [
        ({}, True),
        ({"ce_type": b"a"}, False),
        ({"ce_type": b"ab.c"}, False),
        ({"ce_type": b"ab"}, True),
        ({"ce_type": None}, False),
        ({"ce_specversion": b"0.3"}, False),
        ({"ce_id": b""}, False),
        ({"content-type": b"application/cloudevents+json"}, False),
        ({"content-type": b"application/json"}, True),
    ],
)
def test_only_binary_events_of_other_types_are_unwanted(
    changed: dict[str, bytes | None], unwanted: bool
) -> None:
    """A structured event's mirrored headers may lie (K12): its body says what it is."""
    assert is_unwanted(headers(**changed), WANTED) is unwanted


def test_a_header_that_comes_twice_is_looked_at_closely() -> None:
    """Which one counts, the binding says."""
    assert not is_unwanted([*headers(), ("ce_type", b"a")], WANTED)


@given(
    st.lists(st.tuples(st.sampled_from([*EVENT, "content-type", "ce_time"]), values), max_size=8)
)
def test_nothing_wanted_is_left_out(some: list[tuple[str, bytes | None]]) -> None:
    """An event left out by mistake would be lost without a word (reliability G1)."""
    if is_unwanted(some, WANTED):
        try:
            decoded = decode(Record(None, tuple(some), b"x"))
        except SenderError:
            return  # an event of another type, with a fault beside
        assert not WANTED.holds(decoded.event.attributes["type"])
