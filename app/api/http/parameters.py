"""Parameters that several operations share, in queries and bodies: filters of dead letters, rates, and pages
of rows.

A parameter that an operation does not know is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, TypeVar
from urllib.parse import urlencode

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from app.interfaces import DeadLetter, DeadLetterFilter, Parked
from app.model.duration import number
from app.model.moment import LATEST_MS, time_of

GREATEST_ID = (1 << 63) - 1  # the largest integer of a column of the store
FASTEST, SLOWEST = 1_000_000.0, 1 / 86_400  # events/s; less than one a day is taken as a mistake
LIMIT, LIMIT_MAX = 100, 1_000
PAGE_BYTES = 16 << 20  # after which a page of messages ends; it has at least one
AT_ONCE = 50  # rows of one read from the store

Row = TypeVar("Row", DeadLetter, Parked)

Text = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00]*$")]
"""A non-empty text without NUL, which neither PostgreSQL nor an attribute of an event can contain."""
Id = Annotated[int, Field(ge=1, le=GREATEST_ID)]
"""The id of a row in the store."""


def _as_list(value: object) -> object:
    """Return the value as a list: a text becomes a list with one item, and null an empty list. Return any
    other value unchanged."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else value


Texts = Annotated[
    list[Text],
    BeforeValidator(_as_list, json_schema_input_type=Text | list[Text] | None),
    Field(max_length=100),
]
"""One text or several. A client may send a text, a list, or a repeated parameter."""


def _to_ms(value: object) -> object:
    """Return milliseconds since the epoch for RFC 3339 text or for a number. Other values are returned
    unchanged and then fail validation."""
    if not isinstance(value, str):
        return number(value)
    if value.isascii() and value.isdecimal():
        return int(value)
    found = time_of(value)
    if found is None:
        raise ValueError("is neither RFC 3339 with a time zone nor milliseconds since the epoch")
    return found


Moment = Annotated[
    int,
    BeforeValidator(_to_ms, json_schema_input_type=str | int),
    Field(ge=0, le=LATEST_MS),
]
"""A time in milliseconds since the epoch, which a client may also write as RFC 3339."""


def _rate(value: float) -> float:
    if 0 < value < SLOWEST:
        raise ValueError("is less than one event a day")
    return value


Rate = Annotated[float, Field(ge=0, le=FASTEST, allow_inf_nan=False), AfterValidator(_rate)]
"""Events per second; 0 for no limit."""

BODY = ConfigDict(extra="forbid", strict=True)
"""The model configuration of JSON bodies: members must be known and have their JSON type. In a query
everything is text, so it cannot be strict."""


class LetterFilter(BaseModel):
    """The filter that chooses the dead letters of an operation. A member that is absent matches all dead
    letters. An unknown member is refused, because a misspelt filter would match more than intended."""

    model_config = ConfigDict(extra="forbid")

    subscription: Texts = Field([], description="ids of the subscriptions")
    cause: list[Text] = Field(
        [], description="causes, as count returns them; any of them matches", max_length=100
    )
    since: Moment | None = Field(
        None,
        description="given up at this time or later: RFC 3339 or milliseconds since the epoch",
    )
    until: Moment | None = Field(None, description="given up before this time")
    source: Text | None = Field(None, description="source of the event")
    type: Text | None = Field(None, description="type of the event, or a prefix as in orders.*")
    id: list[Id] = Field([], description="ids of dead letters; any of them matches", max_length=500)

    def choice(self) -> DeadLetterFilter:
        """Return the filter in the form that the store accepts."""
        return DeadLetterFilter(
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
    """Read one page of rows. Return the rows, and whether more rows follow. A page has a maximum number of
    rows and roughly a maximum number of bytes, because rows may be large.

    Args:
        ask: A function that reads rows from the store. It takes the maximum number of rows and the id after
            which to start.
        limit: The maximum number of rows of the page.
        cursor: The id after which the page begins, or None.
    """
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
    """Return path and query of the next page: those of this request, with the cursor replaced."""
    kept = [pair for pair in request.query_params.multi_items() if pair[0] not in cursor]
    return f"{request.url.path}?{urlencode([*kept, *cursor.items()])}"


async def demand_known_parameters(request: Request) -> None:
    """Raise RequestValidationError with the names of all query parameters that the operation does not know.
    If an unknown filter were ignored, the operation would return everything."""
    given = request.query_params.keys()
    unknown = sorted(given - set(_known_names(request.scope["route"]))) if given else []
    if unknown:
        raise RequestValidationError([
            {"type": "unknown_parameter", "loc": ("query", name), "msg": "unknown to this operation"}
            for name in unknown
        ])  # fmt: skip


def _known_names(route: APIRoute) -> Iterator[str]:
    """Yield the names of the query parameters of a route, including those that a model declares."""
    for field in route.dependant.query_params:
        model = field.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield from (each.alias or name for name, each in model.model_fields.items())
        else:
            yield field.alias
