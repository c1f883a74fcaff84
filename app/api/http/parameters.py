"""What requests say beside a document: which dead letters they mean and how fast they are to go, in a query
and in a body by the same words; which page of rows; and what no operation knows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, TypeVar
from urllib.parse import urlencode

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from app.api.http.start_points import LATEST_MS, time_of
from app.interfaces import DeadLetter, LetterChoice, Parked
from app.model.duration import number

GREATEST_ID = (1 << 63) - 1  # of the store's columns
FASTEST, SLOWEST = 1_000_000.0, 1 / 86_400  # events a second: slower than one a day is a mistake
LIMIT, LIMIT_MAX = 100, 1_000
PAGE_BYTES = 16 << 20  # of the messages of a page; one is always given
AT_ONCE = 50  # rows that are read at a time

Row = TypeVar("Row", DeadLetter, Parked)

Text = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00]*$")]
"""PostgreSQL has no NUL in texts; nor has an attribute of an event."""
Id = Annotated[int, Field(ge=1, le=GREATEST_ID)]


def _listed(value: object) -> object:
    """Return a list of one for a text, and an empty one for null."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else value


Texts = Annotated[
    list[Text],
    BeforeValidator(_listed, json_schema_input_type=Text | list[Text] | None),
    Field(max_length=100),
]
"""One or several: a text, a list, or a parameter that is repeated."""


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

    subscription: Texts = Field([], description="of this one, or of one of these")
    cause: list[Text] = Field(
        [], description="with one of these causes, as count shows them", max_length=100
    )
    since: Moment | None = Field(
        None,
        description="given up at this time or later: RFC 3339, or milliseconds since the epoch",
    )
    until: Moment | None = Field(None, description="given up before this time")
    source: Text | None = Field(None, description="the event's source")
    type: Text | None = Field(None, description="the event's type; orders.* for a prefix")
    id: list[Id] = Field([], description="one of these", max_length=500)

    def choice(self) -> LetterChoice:
        return LetterChoice(
            subscriptions=tuple(self.subscription),
            causes=tuple(self.cause),
            since_ms=self.since,
            until_ms=self.until,
            source=self.source,
            type=self.type,
            ids=tuple(self.id),
        )


async def read_page(
    ask: Callable[[int, int | None], Awaitable[list[Row]]], limit: int, cursor: int | None
) -> tuple[list[Row], bool]:
    """``ask`` takes how many rows at most, and the id of the one before them. The rows, and whether
    there are more. Rows may be large: a page is bounded in number and, roughly, in bytes (rule 8)."""
    found: list[Row] = []
    size = 0
    while True:
        wanted = min(AT_ONCE, limit + 1 - len(found))
        rows = await ask(wanted, cursor)
        for row in rows:
            if len(found) == limit or (found and size > PAGE_BYTES):
                return found, True
            found.append(row)
            size += _size(row)
        if len(rows) < wanted:
            return found, False
        cursor = rows[-1].id


def _size(row: DeadLetter | Parked) -> int:
    record = row.message.record
    return len(record.body or b"") + sum(len(value or b"") for _, value in record.headers)


def next_page(request: Request, **cursor: int) -> str:
    """The same request, from another place on."""
    kept = [pair for pair in request.query_params.multi_items() if pair[0] not in cursor]
    return f"{request.url.path}?{urlencode([*kept, *cursor.items()])}"


async def known_only(request: Request) -> None:
    """Query parameters that no operation knows are refused: a filter that is not read would answer with
    everything. Raises RequestValidationError, which names every unknown one."""
    given = request.query_params.keys()
    unknown = sorted(given - set(_known(request.scope["route"]))) if given else []
    if unknown:
        raise RequestValidationError([
            {"type": "unknown_parameter", "loc": ("query", name), "msg": "unknown to this operation"}
            for name in unknown
        ])  # fmt: skip


def _known(route: APIRoute) -> Iterator[str]:
    """Names of single parameters, and those of a model that holds several."""
    for field in route.dependant.query_params:
        model = field.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield from (each.alias or name for name, each in model.model_fields.items())
        else:
            yield field.alias
