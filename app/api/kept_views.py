"""Rows of the store as the API shows them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from app.api import messages
from app.api.delivery_answers import (
    AttemptView,
    CauseCount,
    EventView,
    ParkedKeyView,
    WaitingView,
)
from app.api.running import Running
from app.interfaces import Attempt, DeadLetter, EventName, Parked, ParkedKey, Waiting
from app.model.message import Message


def dead_letter(running: Running, letter: DeadLetter, *, raw: bool = False) -> dict[str, object]:
    return {
        "id": letter.id,
        "subscription": letter.subscription,
        "broker": letter.broker,
        "cause": letter.cause,
        "detail": letter.detail,
        "attempts": letter.attempts,
        "status": letter.status,
        "at_ms": letter.at_ms,
        "message": message(running, letter.broker, letter.message, raw=raw),
    }


def message(running: Running, broker: str, found: Message, *, raw: bool = False) -> msgspec.Raw:
    """Its broker may be gone from the configuration since."""
    kind = running.kinds.get(broker, "embedded")
    return msgspec.Raw(messages.to_json(found, kind, raw=raw))


def parked(running: Running, row: Parked, *, with_message: bool) -> dict[str, object]:
    place = row.message.partition
    view: dict[str, object] = {
        "id": row.id,
        "subscription": row.subscription,
        "broker": row.broker,
        "topic": place.topic,
        "partition": place.number,
        "position": row.message.position,
        "key": key(row.message.record.key),
        "event": msgspec.to_builtins(row.event),
        "redriven": row.redriven,
        "attempts": row.attempts,
        "cause": row.cause,
        "detail": row.detail,
        "at_ms": row.at_ms,
        "due_ms": row.due_ms,
    }
    if with_message:
        view["message"] = message(running, row.broker, row.message)
    return view


def attempt(each: Attempt) -> AttemptView:
    return AttemptView(
        subscription=each.subscription,
        topic=each.partition.topic,
        partition=each.partition.number,
        position=each.position,
        event=event(EventName(each.event_id, each.event_source, each.event_type)),
        number=each.number,
        started_ms=each.started_ms,
        duration_ms=round(each.duration_ms, 3),
        outcome=each.outcome,
        status=each.status,
        detail=each.detail,
        next_try_in=None if each.next_try_in is None else round(each.next_try_in, 3),
        together=each.together,
    )


def waiting(each: Waiting) -> WaitingView:
    return WaitingView(
        subscription=each.subscription,
        topic=each.partition.topic,
        partition=each.partition.number,
        position=each.position,
        event=event(each.event),
        behind=None if each.behind is None else event(each.behind),
        parked=each.parked,
    )


def event(name: EventName) -> EventView:
    return EventView(id=name.id, source=name.source, type=name.type)


def key(found: bytes | None) -> str | None:
    """For a person: bytes that are no text are escaped."""
    return None if found is None else found.decode("utf-8", "backslashreplace")


def counts(found: Mapping[tuple[str, str], int]) -> list[CauseCount]:
    return [
        CauseCount(subscription=subscription, cause=cause, count=count)
        for (subscription, cause), count in sorted(found.items())
    ]


def parked_key(each: ParkedKey) -> ParkedKeyView:
    oldest = each.oldest
    place = oldest.message.partition
    return ParkedKeyView(
        subscription=oldest.subscription,
        broker=oldest.broker,
        topic=place.topic,
        partition=place.number,
        key=key(oldest.message.record.key),
        rows=each.rows,
        redriven=each.redriven,
        at_ms=oldest.at_ms,
        due_ms=oldest.due_ms,
        attempts=oldest.attempts,
        cause=oldest.cause,
        detail=oldest.detail,
        event=event(oldest.event),
    )
