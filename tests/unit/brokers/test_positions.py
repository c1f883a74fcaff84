"""Positions as texts that come from outside: of every broker whose positions are numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.brokers.kafka import reader as kafka
from app.brokers.pulsar import places as pulsar
from app.brokers.rabbitmq import stream as rabbitmq
from app.errors import PositionOutOfRange


@pytest.mark.parametrize("read", [kafka.offset_of, rabbitmq.offset_of, pulsar.read_position])
@pytest.mark.parametrize("number", ["", "-1", "x", "²", "9" * 20, "9" * 5_000])
def test_a_text_that_no_position_has_is_out_of_range(
    read: Callable[[str], object], number: str
) -> None:
    """Rule 10: it stops whoever gave it; Python makes no numbers of thousands of digits."""
    for text in (number, f"{number}:1", f"1:{number}"):
        with pytest.raises(PositionOutOfRange):
            read(text)
