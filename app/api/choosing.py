"""How requests say which dead letters they mean, and how fast they are to go: in a query, and in a body,
by the same words."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from app.api.places import time_of
from app.interfaces import LetterChoice
from app.model.duration import number

LATEST_MS = 253_402_300_800_000  # the year 10000
GREATEST_ID = (1 << 63) - 1  # of the store's columns
FASTEST, SLOWEST = 1_000_000.0, 1 / 86_400  # events a second: slower than one a day is a mistake

Text = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00]*$")]
"""PostgreSQL has no NUL in texts; nor has an attribute of an event."""
Id = Annotated[int, Field(ge=1, le=GREATEST_ID)]


def _moment(value: object) -> object:
    """RFC 3339 or milliseconds since the epoch."""
    if not isinstance(value, str):
        return number(value)
    if value.isascii() and value.isdecimal():
        return int(value)
    found = time_of(value)
    if found is None:
        raise ValueError("is neither RFC 3339 with its zone nor milliseconds since the epoch")
    return found


Moment = Annotated[
    int,
    BeforeValidator(_moment, json_schema_input_type=str | int),
    Field(ge=0, le=LATEST_MS),
]


def _rate(value: float) -> float:
    if 0 < value < SLOWEST:
        raise ValueError("is slower than one a day")
    return value


Rate = Annotated[float, Field(ge=0, le=FASTEST, allow_inf_nan=False), AfterValidator(_rate)]
"""A second; 0 for any."""

BODY = ConfigDict(extra="forbid", strict=True)
"""JSON has types of its own: "1" is no number. In a query everything is text."""


class LetterFilter(BaseModel):
    """Which dead letters: what is left out chooses all. A word that is none of these is refused, for a
    misspelt filter would choose more than was meant."""

    model_config = ConfigDict(extra="forbid")

    subscription: Text | None = Field(None, description="of this one")
    cause: list[Text] = Field(
        [], description="of one of these, as count shows them", max_length=100
    )
    since: Moment | None = Field(
        None, description="given up then or later: RFC 3339, or milliseconds since the epoch"
    )
    until: Moment | None = Field(None, description="given up before then")
    source: Text | None = Field(None, description="the event's source")
    type: Text | None = Field(None, description="the event's type; orders.* for what begins so")
    id: list[Id] = Field([], description="one of these", max_length=500)

    def choice(self) -> LetterChoice:
        return LetterChoice(
            subscription=self.subscription,
            causes=tuple(self.cause),
            since_ms=self.since,
            until_ms=self.until,
            source=self.source,
            type=self.type,
            ids=tuple(self.id),
        )
