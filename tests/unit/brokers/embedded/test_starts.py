"""Positions as texts that come from outside."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.brokers.embedded.starts import to_offset
from app.errors import PositionOutOfRange
from app.model.message import Partition


@pytest.mark.parametrize("text", ["", "-1", "1.5", "\0", "²", "9" * 20, "9" * 5_000])
def test_a_text_that_no_offset_has_is_no_position(text: str) -> None:
    """Rule 10: it stops whoever gave it; Python makes no numbers of thousands of digits."""
    log: Any = SimpleNamespace(place=Partition("events", 0), earliest=3, next_offset=9)
    with pytest.raises(PositionOutOfRange) as refusal:
        to_offset(text, log)
    assert (refusal.value.earliest, refusal.value.latest) == ("3", "9")
