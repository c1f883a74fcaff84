"""Where a group without a position begins (rule 10 of delivery), as a log is told and as a user writes it."""

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

from app.model.route import Strict


class StartAt(msgspec.Struct, frozen=True):
    """``kind`` earliest, latest, time (``time_ms`` since the epoch) or position (by partition)."""

    kind: Literal["earliest", "latest", "time", "position"] = "latest"
    time_ms: int = 0
    positions: Mapping[int, str] = {}


EARLIEST = StartAt("earliest")
LATEST = StartAt("latest")


def _instant(text: str) -> str:
    """RFC 3339 with its zone; kept as it was written."""
    try:
        zoned = datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        zoned = False
    if not zoned:
        raise ValueError(
            "The value is not a time with a zone. Cure: Write for example 2026-01-01T00:00:00Z."
        )
    return text


Position = Annotated[
    str, BeforeValidator(lambda value: str(value) if type(value) is int else value)
]
"""Opaque text of the log; a number is taken as its text."""


class Start(Strict):
    """``{time: 2026-01-01T00:00:00Z}`` or ``{position: {0: "123"}}``."""

    time: Annotated[str, AfterValidator(_instant)] | None = Field(
        None, description="the first message stored at this time or later"
    )
    position: dict[Annotated[int, Field(ge=0)], Position] | None = Field(
        None, description="partition number to the position of the first message"
    )

    @model_validator(mode="after")
    def one_way(self) -> Start:
        if (self.time is None) == (self.position is None):
            raise ValueError(
                "The start has neither or both of time and position. "
                "Cure: Write earliest, latest, {time: ...} or {position: {...}}."
            )
        return self


def start_at(start: Literal["earliest", "latest"] | Start) -> StartAt:
    """As the log is told."""
    if not isinstance(start, Start):
        return EARLIEST if start == "earliest" else LATEST
    if start.time is not None:
        moment = datetime.fromisoformat(start.time)  # the model has seen that it is one
        since = int(moment.timestamp() * 1000)
        return StartAt("time", time_ms=max(0, since))  # brokers know no time before 1970
    return StartAt("position", positions=start.position or {})


def _start_form(value: object) -> str:
    return "mapping" if isinstance(value, dict | Start) else "word"


StartSetting = Annotated[
    Annotated[Literal["earliest", "latest"], Tag("word")] | Annotated[Start, Tag("mapping")],
    Discriminator(_start_form),
]
