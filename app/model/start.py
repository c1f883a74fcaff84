"""The setting ``start``: where a group without a committed position begins to read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from app.model.moment import time_of
from app.model.route import Strict


class StartAt(msgspec.Struct, frozen=True):
    """The start of a group without a committed position, as a log takes it.

    Attributes:
        kind: ``earliest``, ``latest``, ``time`` or ``position``.
        time_ms: For ``time``: ms since 1970.
        positions: For ``position``: the first position of each partition.
    """

    kind: Literal["earliest", "latest", "time", "position"] = "latest"
    time_ms: int = 0
    positions: Mapping[int, str] = {}


EARLIEST = StartAt("earliest")
LATEST = StartAt("latest")


def _instant(text: str) -> str:
    """Return the text if it is an RFC 3339 time with a zone. Raise ValueError if not."""
    if time_of(text) is None:
        raise ValueError(
            "The value is not a time with a time zone. Cure: Write a time and a zone, for example 2026-01-01T00:00:00Z."
        )
    return text


Position = Annotated[
    str, BeforeValidator(lambda value: str(value) if type(value) is int else value)
]
"""The opaque position of a log. A number is accepted as its text."""


class Start(Strict):
    """A start by time, ``{time: 2026-01-01T00:00:00Z}``, or by position, ``{position: {0: "123"}}``."""

    time: Annotated[str, AfterValidator(_instant)] | None = Field(
        None, description="start with the first message stored at this time or later"
    )
    position: dict[Annotated[int, Field(ge=0)], Position] | None = Field(
        None, description="start with the message at this position, by partition number"
    )

    @model_validator(mode="after")
    def one_way(self) -> Start:
        if (self.time is None) == (self.position is None):
            raise ValueError(
                "The start needs exactly one of time and position. "
                "Cure: Write {time: ...} or {position: {...}}, or write earliest or latest without braces."
            )
        return self


def start_at(start: Literal["earliest", "latest"] | Start) -> StartAt:
    """Return the setting ``start`` as a log takes it."""
    if not isinstance(start, Start):
        return EARLIEST if start == "earliest" else LATEST
    if start.time is not None:
        moment = datetime.fromisoformat(start.time)  # the model has validated it
        since = int(moment.timestamp() * 1000)
        return StartAt("time", time_ms=max(0, since))  # brokers have no time before 1970
    return StartAt("position", positions=start.position or {})


def _start_form(value: object) -> str:
    return "mapping" if isinstance(value, dict | Start) else "word"


StartSetting = Annotated[
    Annotated[Literal["earliest", "latest"], Tag("word")] | Annotated[Start, Tag("mapping")],
    Discriminator(_start_form),
]
