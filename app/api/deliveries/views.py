"""What was tried, what waits and what was given up: answers, and the rows of the store that they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Annotated

import msgspec
from pydantic import AfterValidator, BaseModel, Field

from app.api.access.redaction import Shown
from app.api.http.slices import Slices
from app.api.http.views import View
from app.api.topics import messages
from app.api.topics.answers import MessageView
from app.interfaces import (
    Attempt,
    DeadLetter,
    HttpExchange,
    Parked,
    ParkedKey,
    Waiting,
)
from app.interfaces.kept import Fields
from app.model.message import Message, Partition

Rounded = Annotated[float, AfterValidator(partial(round, ndigits=3))]


class EventView(BaseModel):
    """Attributes that identify an event; empty for a record that is no event."""

    id: str
    source: str
    type: str


class _Delivered(View):
    """One message on its way to one subscription."""

    subscription: str
    topic: str
    partition: int
    position: str
    event: EventView


class HeaderView(BaseModel):
    name: str
    value: str | None = Field(description="null without the scope data")


class WireView(BaseModel):
    """A message of HTTP as it was sent or answered, up to `store.attempts.bodies` bytes of its body. A body
    that is not UTF-8 is in `body_base64`."""

    line: str = Field(description="request line or status line; secrets are hidden")
    headers: list[HeaderView] = Field(description="without secrets")
    body: str | None = None
    body_base64: str | None = None
    size: int | None = Field(
        description="bytes of the whole body; null if it was not read to its end"
    )
    withheld: bool = Field(
        description="true: the token lacks the scope data, so values and body are left out"
    )


class AttemptView(_Delivered):
    """One attempt to deliver one message. `detail`: the failure, clipped; it quotes the target's
    answer, which is never in the log of the process, and only shown with the scope `data`."""

    number: int = Field(
        description="number of the attempt of this message, from 1; one that was not sent does not count"
    )
    started_ms: int
    duration_ms: Rounded
    outcome: str = Field(
        description="delivered, retry, dead-letter, disable, or unsent: the target was not reached"
    )
    status: int | None
    detail: str
    next_try_in: Rounded | None = Field(description="seconds, as decided at that attempt")
    together: int = Field(description="number of events in the request")
    request: WireView | None = Field(
        None, description="what was sent; null where nothing was, or it was not kept"
    )
    answer: WireView | None = Field(None, description="the answer; null where none came")


class WaitingView(_Delivered):
    """An event without an attempt yet."""

    behind: EventView | None = Field(
        description="the event of its key that is tried first; null: this event"
    )
    parked: bool = Field(
        description="true: it waits in the store; false: in the memory of a worker"
    )


class AttemptsView(BaseModel):
    attempts: list[AttemptView] = Field(description="the newest first")
    waiting: list[WaitingView] = Field(
        description="only with event_id: where the event waits for its first attempt, as far as "
        "the store and this process know"
    )


class DeadLetterView(View):
    id: int
    subscription: str
    broker: str
    cause: str
    detail: str = Field(description="the last answer, clipped; shown with the scope data")
    attempts: int
    status: int | None
    at_ms: int = Field(description="when it was given up")
    event: EventView
    message: MessageView | None = Field(None, description="null with messages=false")


class DeadLetterDetail(DeadLetterView):
    history: list[AttemptView] = Field(description="its stored attempts, the newest first")


class DeadLetterPage(BaseModel):
    dead_letters: list[DeadLetterView] = Field(description="the newest first")
    next: str | None = Field(description="path of the next page; null on the last")


class CauseCount(BaseModel):
    subscription: str
    cause: str
    count: int


class IntervalCount(BaseModel):
    at_ms: int = Field(description="start of the interval")
    cause: str
    count: int


class DeadLetterCounts(BaseModel):
    total: int
    counts: list[CauseCount]
    over_time: list[IntervalCount] = Field(
        [], description="only with every: intervals with dead letters, the oldest first"
    )


class Discarded(BaseModel):
    dry_run: bool
    matched: int
    discarded: int
    counts: list[CauseCount] = Field(description="what was found")


class Skipped(BaseModel):
    subscription: str
    count: int
    why: str


class Redriven(BaseModel):
    """Result of a redrive: the found letters of a dry run, or the letters now in delivery."""

    dry_run: bool
    at_ms: int = Field(description="now, by the service's clock; a value for until")
    matched: int
    redriven: int
    left: int = Field(description="letters beyond limit, not redriven yet: repeat the request")
    counts: list[CauseCount] = Field(description="what was found")
    skipped: list[Skipped] = Field(description="letters that cannot be redriven, with the reason")
    waiting: dict[str, str] = Field(
        description="subscriptions that deliver nothing now, with the reason; their letters wait"
    )


class ParkedView(View):
    id: int
    subscription: str
    broker: str
    topic: str
    partition: int
    position: str
    key: str | None = Field(description="key of the record, as text; null without the scope data")
    event: EventView
    redriven: bool = Field(description="a redriven dead letter: later events do not wait for it")
    attempts: int
    cause: str
    detail: str
    at_ms: int = Field(description="start of its wait")
    due_ms: int = Field(description="time of the next attempt")
    message: MessageView | None = Field(None, description="only with messages=true")


class ParkedPage(BaseModel):
    parked: list[ParkedView] = Field(description="in order of writing")
    next: str | None = Field(description="path of the next page; null on the last")


class ParkedKeyView(View):
    """One parked key, by its oldest message."""

    subscription: str
    broker: str
    topic: str
    partition: int
    key: str | None = Field(
        description="key of its oldest record, as text; null without one, or without the scope data"
    )
    rows: int
    redriven: int = Field(description="of them: redriven")
    at_ms: int = Field(description="start of the wait of its oldest message")
    due_ms: int = Field(description="time of the next attempt")
    attempts: int = Field(description="of its oldest")
    cause: str
    detail: str
    event: EventView


class ParkedKeys(BaseModel):
    keys: list[ParkedKeyView] = Field(description="keys, the longest wait first")


class ParkedCountView(View):
    subscription: str
    rows: int
    keys: int
    redriven: int
    oldest_ms: int = Field(description="start of the wait of the oldest message")


class ParkedCounts(BaseModel):
    counts: list[ParkedCountView]


def dead_letter(
    kinds: Mapping[str, str], letter: DeadLetter, shown: Shown, *, raw: bool = False, **more: object
) -> dict[str, object]:
    found = message(kinds, letter.broker, letter.message, shown, raw=raw)
    return named_letter(letter, shown, message=found, **more)


def named_letter(letter: DeadLetter, shown: Shown, **more: object) -> dict[str, object]:
    """Without its message, unless that is given."""
    given = {"message": None, "detail": shown.text(letter.detail), **more}
    return DeadLetterDetail.members(letter, **given)


def message(
    kinds: Mapping[str, str], broker: str, found: Message, shown: Shown, *, raw: bool = False
) -> msgspec.Raw:
    """Return the message as JSON. ``kinds``: of the brokers, of which its own may be gone from the configuration."""
    kind = kinds.get(broker, "embedded")
    return msgspec.Raw(messages.to_json(found, kind, raw=raw, shown=shown))


def over_time(found: Mapping[tuple[int, str], int]) -> list[IntervalCount]:
    return [
        IntervalCount(at_ms=at_ms, cause=cause, count=count)
        for (at_ms, cause), count in sorted(found.items())
    ]


def parked(
    kinds: Mapping[str, str], row: Parked, shown: Shown, *, with_message: bool
) -> dict[str, object]:
    view = ParkedView.members(row, **_row(row, shown))
    del view["message"]
    if not with_message:
        return view
    return view | {"message": message(kinds, row.broker, row.message, shown)}


def attempt(each: Attempt, shown: Shown) -> AttemptView:
    detail = shown.text(each.detail)
    more: dict[str, object] = {"request": None, "answer": None}
    if each.exchange is not None:
        more = _wires(each.exchange, shown)
    return AttemptView.of(each, **_place(each.partition), detail=detail, **more)


def _wires(exchange: HttpExchange, shown: Shown) -> dict[str, object]:
    sent = _wire(exchange.line, exchange.headers, exchange.body, exchange.size, shown)
    if not exchange.status_line:
        return {"request": sent, "answer": None}
    answer = _wire(
        exchange.status_line,
        exchange.answer_headers,
        exchange.answer_body,
        exchange.answer_size,
        shown,
    )
    return {"request": sent, "answer": answer}


def _wire(line: str, headers: Fields, body: bytes, size: int | None, shown: Shown) -> WireView:
    """A mask hides places in data by pointers, which a clipped body does not have: it is shown whole or not."""
    every = shown.everything
    return WireView(
        line=line,
        headers=[HeaderView(name=name, value=value if every else None) for name, value in headers],
        size=size,
        withheld=not every,
        **(messages.text_or_base64("body", body) if every and body else {}),
    )


def waiting(each: Waiting) -> WaitingView:
    return WaitingView.of(each, **_place(each.partition))


def parked_key(each: ParkedKey, shown: Shown) -> ParkedKeyView:
    about = _row(each.oldest, shown)
    return ParkedKeyView.of(each.oldest, **about, rows=each.rows, redriven=each.redriven)


def counts(found: Mapping[tuple[str, str], int]) -> list[CauseCount]:
    return [
        CauseCount(subscription=subscription, cause=cause, count=count)
        for (subscription, cause), count in sorted(found.items())
    ]


def _place(partition: Partition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.number}


def _row(row: Parked, shown: Shown) -> dict[str, object]:
    """``key`` is for a person: bytes that are no text are escaped."""
    found = row.message
    key = found.record.key if shown.everything else None
    return {
        **_place(found.partition),
        "position": found.position,
        "key": None if key is None else key.decode("utf-8", "backslashreplace"),
        "detail": shown.text(row.detail),
    }


async def merged(
    stored: Sequence[Attempt], remembered: Sequence[Attempt], slices: Slices
) -> list[Attempt]:
    """Return the newest first, each once: a failure is in both, and the store has more of it."""
    once: dict[tuple[object, ...], Attempt] = {}
    for each in (*remembered, *stored):
        once[_try(each)] = each
        await slices.spend(1)
    return sorted(once.values(), key=attrgetter("started_ms", "number"), reverse=True)


def _try(each: Attempt) -> tuple[object, ...]:
    return each.subscription, each.partition, each.position, each.number, each.started_ms
