"""Rates of events as people write them: ``100/s``, ``600/m``, ``10000/h``."""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BeforeValidator

_RATE = re.compile(r"([1-9]\d{0,8})\s*/\s*(s|min|m|h)")
_NO_RATE = "The value is not a rate. Cure: Write a number and a unit of time, for example 100/s, 600/m or 10000/h."
_SPANS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


class EventRate(NamedTuple):
    """A rate of at most ``events`` in any ``span`` of seconds."""

    events: int
    span: float


def event_rate(text: str) -> EventRate:
    """Return the rate that a text means. Raises ValueError for a text that is no rate."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(_NO_RATE)
    return EventRate(int(match[1]), _SPANS[match[2]])


def _checked(text: str) -> str:
    event_rate(text)
    return text


def _text(value: object) -> object:
    """Refuse a number, of which YAML has no text. Text as the cure would not be a rate either."""
    if isinstance(value, int | float):
        raise ValueError(_NO_RATE)  # noqa: TRY004 - pydantic takes a ValueError
    return value


RateText = Annotated[
    str, BeforeValidator(_text, json_schema_input_type=str), AfterValidator(_checked)
]
"""A rate, stored as text. ``event_rate`` parses it."""
