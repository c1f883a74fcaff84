"""Rows of the store as the API shows them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from app.api import messages
from app.api.delivery_answers import (
    AttemptView,
    CauseCount,
    DeadLetterDetail,
    ParkedKeyView,
    ParkedView,
    WaitingView,
)
from app.api.running import Running
from app.interfaces import Attempt, DeadLetter, EventName, Parked, ParkedKey, Waiting
from app.model.message import Message, Partition


def dead_letter(
    running: Running, letter: DeadLetter, *, raw: bool = False, **more: object
) -> dict[str, object]:
    found = message(running, letter.broker, letter.message, raw=raw)
    return DeadLetterDetail.members(letter, message=found, **more)


def message(running: Running, broker: str, found: Message, *, raw: bool = False) -> msgspec.Raw:
    """Its broker may be gone from the configuration since."""
    kind = running.kinds.get(broker, "embedded")
    return msgspec.Raw(messages.to_json(found, kind, raw=raw))


def parked(running: Running, row: Parked, *, with_message: bool) -> dict[str, object]:
    view = ParkedView.members(row, **_place(row.message.partition), **_record(row.message))
    del view["message"]
    return view | ({"message": message(running, row.broker, row.message)} if with_message else {})


def attempt(each: Attempt) -> AttemptView:
    event = EventName(each.event_id, each.event_source, each.event_type)
    return AttemptView.of(each, **_place(each.partition), event=event)


def waiting(each: Waiting) -> WaitingView:
    return WaitingView.of(each, **_place(each.partition))


def parked_key(each: ParkedKey) -> ParkedKeyView:
    row = each.oldest
    place, record = _place(row.message.partition), _record(row.message)
    return ParkedKeyView.of(row, **place, **record, rows=each.rows, redriven=each.redriven)


def counts(found: Mapping[tuple[str, str], int]) -> list[CauseCount]:
    return [
        CauseCount(subscription=subscription, cause=cause, count=count)
        for (subscription, cause), count in sorted(found.items())
    ]


def _place(partition: Partition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.number}


def _record(found: Message) -> dict[str, object]:
    """``key`` is for a person: bytes that are no text are escaped."""
    key = found.record.key
    text = None if key is None else key.decode("utf-8", "backslashreplace")
    return {"position": found.position, "key": text}
