"""Positions as texts that come from outside."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.brokers.positions import checked_offset, offset_of
from app.brokers.pulsar.positions import read_position
from app.errors import PositionOutOfRange
from app.model.message import Partition


@pytest.mark.parametrize("read", [offset_of, read_position])
@pytest.mark.parametrize("number", ["", "-1", "1.5", "\0", "x", "²", "9" * 20, "9" * 5_000])
def test_a_text_that_no_position_has_is_out_of_range(
    read: Callable[[str], object], number: str
) -> None:
    """Rule 10: it stops whoever gave it; Python makes no numbers of thousands of digits."""
    for text in (number, f"{number}:1", f"1:{number}"):
        with pytest.raises(PositionOutOfRange):
            read(text)


@pytest.mark.parametrize("text", ["", "-1", "1.5", "\0", "²", "2", "10", "9" * 20, "9" * 5_000])
def test_whoever_gives_a_position_that_is_not_held_is_told_what_is(text: str) -> None:
    with pytest.raises(PositionOutOfRange) as refusal:
        checked_offset(Partition("events", 0), text, 3, 9)
    assert (refusal.value.earliest, refusal.value.latest) == ("3", "9")


@pytest.mark.parametrize("text", ["3", "9"])
def test_the_ends_are_held(text: str) -> None:
    """The latest is where the next message will be."""
    assert checked_offset(Partition("events", 0), text, 3, 9) == int(text)
