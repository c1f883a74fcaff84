"""Answers about attempts, parked events and dead letters, made from rows of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Annotated

import msgspec
from pydantic import AfterValidator, BaseModel, Field

from app.api.access.redaction import Redaction
from app.api.http.slices import Slices
from app.api.http.views import CopyingView
from app.api.topics import messages
from app.api.topics.answers import MessageView
from app.interfaces import (
    Attempt,
    DeadLetter,
    HttpExchange,
    Parked,
    ParkedKey,
    WaitingEvent,
)
from app.interfaces.kept import Fields
from app.model.message import Message, Partition

Rounded = Annotated[float, AfterValidator(partial(round, ndigits=3))]
"""A number with three decimal places."""


class EventView(BaseModel):
    """Attributes that identify an event. They are empty for a record that is not an event."""

    id: str = Field(description="attribute id")
    source: str = Field(description="attribute source")
    type: str = Field(description="attribute type")


class _Delivered(CopyingView):
    """A message of a topic that is delivered to a subscription."""

    subscription: str = Field(description="id of the subscription")
    topic: str = Field(description="name of the topic")
    partition: int = Field(description="number of the partition")
    position: str = Field(description="position of the message in its partition")
    event: EventView = Field(description="attributes that identify the event")


class HeaderView(BaseModel):
    """A header field of a request or an answer."""

    name: str = Field(description="name of the field")
    value: str | None = Field(description="null without the scope data")


class WireView(BaseModel):
    """An HTTP request or answer as it was sent, with at most `store.attempts.bodies` bytes of its body. A
    body that is not UTF-8 is in `body_base64`."""

    line: str = Field(description="request line or status line; secrets are hidden")
    headers: list[HeaderView] = Field(description="header fields without secrets")
    body: str | None = Field(None, description="body as text, clipped")
    body_base64: str | None = Field(None, description="body that is not UTF-8, clipped")
    size: int | None = Field(
        description="bytes of the complete body; null if it was not read completely"
    )
    withheld: bool = Field(
        description="true if the token lacks the scope data, so that header values and body are omitted"
    )


class AttemptView(_Delivered):
    """One attempt to deliver one message.

    `detail` is the failure, clipped. It may quote the target's answer, so it is never logged, and is shown
    only with the scope `data`.
    """

    number: int = Field(
        description="number of the attempt of this message, from 1. An unsent attempt does not count"
    )
    started_ms: int = Field(description="start of the attempt, in ms since the epoch")
    duration_ms: Rounded = Field(description="duration of the attempt in ms")
    outcome: str = Field(
        description="delivered, retry, dead-letter, disable, or unsent if the target was not reached"
    )
    status: int | None = Field(description="HTTP status of the answer; null if there was none")
    detail: str = Field(description="the failure in words")
    next_try_in: Rounded | None = Field(
        description="seconds until the next attempt, as decided after this one; null if there is none"
    )
    together: int = Field(description="number of events in the request")
    request: WireView | None = Field(
        None, description="the request; null if none was sent or it was not stored"
    )
    answer: WireView | None = Field(None, description="the answer; null if there was none")
    kept_until_ms: int | None = Field(
        None,
        description="when headers and bodies of request and answer are deleted, in ms since the epoch; null without them",
    )


class WaitingView(_Delivered):
    """An event without an attempt so far."""

    behind: EventView | None = Field(
        description="the earlier event of its key for which it waits; null if it waits for none"
    )
    parked: bool = Field(
        description="true if it waits in the store, false if in the memory of a worker"
    )


class AttemptsView(BaseModel):
    """Attempts, and events that wait for their first attempt."""

    attempts: list[AttemptView] = Field(description="the newest first")
    waiting: list[WaitingView] = Field(
        description="with event_id only: subscriptions at which the event waits for its first attempt, as far as "
        "the store and this process know"
    )


class DeadLetterView(CopyingView):
    """An event that was given up."""

    id: int = Field(description="id of the dead letter")
    subscription: str = Field(description="id of the subscription")
    broker: str = Field(description="broker from which the event was read")
    cause: str = Field(description="why the event was given up, for programs")
    detail: str = Field(description="the last failure, clipped; shown only with the scope data")
    attempts: int = Field(description="number of attempts")
    status: int | None = Field(description="HTTP status of the last answer; null if there was none")
    at_ms: int = Field(description="when the event was given up, in ms since the epoch")
    event: EventView = Field(description="attributes that identify the event")
    message: MessageView | None = Field(
        None, description="the message from its topic; null with messages=false"
    )


class DeadLetterDetail(DeadLetterView):
    """A dead letter with its attempts."""

    history: list[AttemptView] = Field(description="its known attempts, the newest first")


class DeadLetterPage(BaseModel):
    """A page of dead letters."""

    dead_letters: list[DeadLetterView] = Field(description="the newest first")
    next: str | None = Field(description="path of the next page; null on the last page")


class CauseCount(BaseModel):
    """The number of dead letters of one subscription and cause."""

    subscription: str = Field(description="id of the subscription")
    cause: str = Field(description="why the events were given up")
    count: int = Field(description="number of dead letters")


class IntervalCount(BaseModel):
    """The number of dead letters of one cause within one interval."""

    at_ms: int = Field(description="start of the interval, in ms since the epoch")
    cause: str = Field(description="why the events were given up")
    count: int = Field(description="number of dead letters")


class DeadLetterCounts(BaseModel):
    """The number of dead letters by subscription and cause, and over time."""

    total: int = Field(description="number of all matching letters")
    counts: list[CauseCount] = Field(description="matching letters by subscription and cause")
    over_time: list[IntervalCount] = Field(
        [], description="with every only: intervals with dead letters, the oldest first"
    )


class Discarded(BaseModel):
    """The number of dead letters that were discarded, or that would be."""

    dry_run: bool = Field(description="true if the request only counted")
    matched: int = Field(description="number of letters that match the request")
    discarded: int = Field(description="number of deleted letters")
    counts: list[CauseCount] = Field(description="matching letters by subscription and cause")


class Skipped(BaseModel):
    """Dead letters of one subscription that cannot be redriven."""

    subscription: str = Field(description="id of the subscription")
    count: int = Field(description="number of its matching letters")
    why: str = Field(description="why they cannot be redriven, and the cure")


class Redriven(BaseModel):
    """The result of a redrive. A dry run counts the matching letters only."""

    dry_run: bool = Field(description="true if the request only counted")
    at_ms: int = Field(
        description="time of the request by the service's clock, in ms since the epoch; a value for until"
    )
    matched: int = Field(description="number of letters that match the request")
    redriven: int = Field(description="number of letters that are now in delivery")
    left: int = Field(
        description="number of letters beyond limit; repeat the request to redrive them"
    )
    counts: list[CauseCount] = Field(description="matching letters by subscription and cause")
    skipped: list[Skipped] = Field(description="letters that cannot be redriven, with the reason")
    waiting: dict[str, str] = Field(
        description="subscriptions that deliver nothing now, with the reason; their letters wait until they do"
    )


class ParkedView(CopyingView):
    """A message that waits in the store."""

    id: int = Field(description="id of the row; rows are listed in this order")
    subscription: str = Field(description="id of the subscription")
    broker: str = Field(description="broker from which the message was read")
    topic: str = Field(description="name of the topic")
    partition: int = Field(description="number of the partition")
    position: str = Field(description="position of the message in its partition")
    key: str | None = Field(
        description="key of the record as text; null if it has none, or without the scope data"
    )
    event: EventView = Field(description="attributes that identify the event")
    redriven: bool = Field(
        description="true for a redriven dead letter; later events of its key do not wait for it"
    )
    attempts: int = Field(description="number of attempts so far")
    cause: str = Field(description="why the message waits, for programs")
    detail: str = Field(description="the last failure, clipped; shown only with the scope data")
    at_ms: int = Field(description="start of the wait, in ms since the epoch")
    due_ms: int = Field(description="time of the next attempt, in ms since the epoch")
    message: MessageView | None = Field(
        None, description="the message from its topic; null unless messages=true"
    )


class ParkedPage(BaseModel):
    """A page of parked messages."""

    parked: list[ParkedView] = Field(description="the oldest row first")
    next: str | None = Field(description="path of the next page; null on the last page")


class ParkedKeyView(CopyingView):
    """A parked key, described by its oldest message."""

    subscription: str = Field(description="id of the subscription")
    broker: str = Field(description="name of the broker")
    topic: str = Field(description="name of the topic")
    partition: int = Field(description="number of the partition")
    key: str | None = Field(
        description="key of the oldest record as text; null if it has none, or without the scope data"
    )
    rows: int = Field(description="number of its parked messages")
    redriven: int = Field(description="how many of them are redriven dead letters")
    at_ms: int = Field(description="start of the wait of the oldest message, in ms since the epoch")
    due_ms: int = Field(description="time of the next attempt, in ms since the epoch")
    attempts: int = Field(description="number of attempts of the oldest message")
    cause: str = Field(description="why the oldest message waits, for programs")
    detail: str = Field(description="its last failure, clipped; shown only with the scope data")
    event: EventView = Field(description="event of the oldest message")


class ParkedKeys(BaseModel):
    """Parked keys."""

    keys: list[ParkedKeyView] = Field(description="parked keys, the longest wait first")


class ParkedCountView(CopyingView):
    """The number of parked messages of one subscription."""

    subscription: str = Field(description="id of the subscription")
    rows: int = Field(description="number of parked messages")
    keys: int = Field(description="number of their keys")
    keyless: int = Field(description="number of messages without a key; each waits on its own")
    redriven: int = Field(description="number of redriven dead letters among the messages")
    oldest_ms: int = Field(
        description="start of the wait of the oldest message, in ms since the epoch"
    )


class ParkedCounts(BaseModel):
    """The number of parked messages of each subscription."""

    counts: list[ParkedCountView] = Field(description="number of parked messages by subscription")


def dead_letter(
    kinds: Mapping[str, str],
    letter: DeadLetter,
    shown: Redaction,
    *,
    raw: bool = False,
    **more: object,
) -> dict[str, object]:
    """Return the answer for a dead letter with its message. ``more`` has further members of the answer."""
    found = message(kinds, letter.broker, letter.message, shown, raw=raw)
    return named_letter(letter, shown, message=found, **more)


def named_letter(letter: DeadLetter, shown: Redaction, **more: object) -> dict[str, object]:
    """Return the answer for a dead letter without its message. The member ``message`` is null, unless
    ``more`` gives a value for it."""
    given = {"message": None, "detail": shown.text(letter.detail), **more}
    return DeadLetterDetail.members(letter, **given)


def message(
    kinds: Mapping[str, str], broker: str, found: Message, shown: Redaction, *, raw: bool = False
) -> msgspec.Raw:
    """Return a message as JSON. ``kinds`` has the protocol of each configured broker. The broker of the
    message may be missing there."""
    kind = kinds.get(broker, "embedded")
    return msgspec.Raw(messages.to_json(found, kind, raw=raw, shown=shown))


def over_time(found: Mapping[tuple[int, str], int]) -> list[IntervalCount]:
    """Return counts by interval and cause, the oldest interval first."""
    return [
        IntervalCount(at_ms=at_ms, cause=cause, count=count)
        for (at_ms, cause), count in sorted(found.items())
    ]


def parked(
    kinds: Mapping[str, str], row: Parked, shown: Redaction, *, with_message: bool
) -> dict[str, object]:
    """Return the answer for a parked message."""
    view = ParkedView.members(row, **_parked_members(row, shown))
    del view["message"]
    if not with_message:
        return view
    return view | {"message": message(kinds, row.broker, row.message, shown)}


def attempt(each: Attempt, shown: Redaction) -> AttemptView:
    """Return the answer for an attempt."""
    detail = shown.text(each.detail)
    more: dict[str, object] = {"request": None, "answer": None}
    if each.exchange is not None:
        more = _exchange_views(each.exchange, shown)
    return AttemptView.of(each, **_partition_members(each.partition), detail=detail, **more)


def _exchange_views(exchange: HttpExchange, shown: Redaction) -> dict[str, object]:
    """Return the request and the answer of an HTTP exchange."""
    sent = _wire_view(exchange.line, exchange.headers, exchange.body, exchange.size, shown)
    if not exchange.status_line:
        return {"request": sent, "answer": None, "kept_until_ms": exchange.until_ms or None}
    answer = _wire_view(
        exchange.status_line,
        exchange.answer_headers,
        exchange.answer_body,
        exchange.answer_size,
        shown,
    )
    return {"request": sent, "answer": answer, "kept_until_ms": exchange.until_ms or None}


def _wire_view(
    line: str, headers: Fields, body: bytes, size: int | None, shown: Redaction
) -> WireView:
    """Return the answer for one HTTP request or answer. Its body is shown completely or not at all, because
    the pointers of a mask cannot be applied to a clipped body."""
    everything = shown.shows_everything
    return WireView(
        line=line,
        headers=[
            HeaderView(name=name, value=value if everything else None) for name, value in headers
        ],
        size=size,
        withheld=not everything,
        **(messages.text_or_base64("body", body) if everything and body else {}),
    )


def waiting(each: WaitingEvent) -> WaitingView:
    """Return the answer for an event that waits for its first attempt."""
    return WaitingView.of(each, **_partition_members(each.partition))


def parked_key(each: ParkedKey, shown: Redaction) -> ParkedKeyView:
    """Return the answer for a parked key."""
    about = _parked_members(each.oldest, shown)
    return ParkedKeyView.of(each.oldest, **about, rows=each.rows, redriven=each.redriven)


def counts(found: Mapping[tuple[str, str], int]) -> list[CauseCount]:
    """Return counts by subscription and cause."""
    return [
        CauseCount(subscription=subscription, cause=cause, count=count)
        for (subscription, cause), count in sorted(found.items())
    ]


def _partition_members(partition: Partition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.number}


def _parked_members(row: Parked, shown: Redaction) -> dict[str, object]:
    """Return the members of an answer that describe a parked row. Bytes of the key that are not UTF-8 are
    escaped."""
    found = row.message
    key = found.record.key if shown.shows_everything else None
    return {
        **_partition_members(found.partition),
        "position": found.position,
        "key": None if key is None else key.decode("utf-8", "backslashreplace"),
        "detail": shown.text(row.detail),
    }


async def merge_attempts(
    stored: Sequence[Attempt], remembered: Sequence[Attempt], slices: Slices
) -> list[Attempt]:
    """Return attempts of the store and of memory without duplicates, the newest first. An attempt in both is
    taken from the store, which has more details."""
    once: dict[tuple[object, ...], Attempt] = {}
    for each in (*remembered, *stored):
        once[_attempt_identity(each)] = each
        await slices.spend(1)
    return sorted(once.values(), key=attrgetter("started_ms", "number"), reverse=True)


def _attempt_identity(each: Attempt) -> tuple[object, ...]:
    """Return the values that identify an attempt."""
    return each.subscription, each.partition, each.position, each.number, each.started_ms
