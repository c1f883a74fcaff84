"""What the store keeps, as values: one a row."""

from __future__ import annotations

from typing import Literal

import msgspec

from app.bindings.record import Decoded
from app.model.message import Message, Partition


class EventName(msgspec.Struct, frozen=True):
    """By which an event is found again; empty texts for a record that is none."""

    id: str = ""
    source: str = ""
    type: str = ""


def event_name(decoded: Decoded | None) -> EventName:
    """Of a record that was read; None: it is no event."""
    if decoded is None:
        return EventName()
    named = decoded.event.attributes.get
    return EventName(named("id", ""), named("source", ""), named("type", ""))


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that will not be delivered, with everything needed to redrive it.

    ``cause``    stable code (``status-415``, ``schedule-exhausted``, ``foreign``); counted by it.
    ``detail``   for a person: the last answer, clipped.
    ``lane``     what it was in line with, as ``Parked.lane``.
    ``at_ms``    milliseconds since the epoch. ``epoch`` of the message: of the owner that writes; stale
                 is refused.
    ``id``       given by the store, in order of writing; 0 before.
    """

    subscription: str
    broker: str
    message: Message
    cause: str
    detail: str
    attempts: int
    status: int | None
    at_ms: int
    lane: bytes = b""
    event: EventName = EventName()
    id: int = 0


class LetterChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters are meant; what is left out chooses all. ``since`` and ``until`` in milliseconds,
    the first included, the second not; ``type`` may end with ``*``. ``subscriptions``: of one of these."""

    subscription: str | None = None
    subscriptions: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    source: str | None = None
    type: str | None = None
    event_id: str | None = None
    ids: tuple[int, ...] = ()


class Parked(msgspec.Struct, frozen=True, kw_only=True):
    """A message that waits in the store for its turn (rules 4 and 5), or was given back (redrive).

    ``lane``      the key it is in line with: rows of one lane leave in the order of their offsets,
                  partition by partition.
    ``redriven``  it came back from the dead letters: its order is past, later events do not wait for it.
    ``letter``    id of the dead letter that it was; 0 of any other. Redriven rows of one lane leave in its order.
    ``steps``     waits of the schedule that are used up; ``attempts`` counts all of them.
    ``due_ms``    when it may be tried next, by the wall clock. ``at_ms``: since when it waits.
    ``id``        given by the store; 0 before.
    """

    subscription: str
    broker: str
    message: Message
    lane: bytes
    redriven: bool = False
    steps: int = 0
    attempts: int = 0
    due_ms: int = 0
    cause: str = ""
    detail: str = ""
    at_ms: int = 0
    event: EventName = EventName()
    letter: int = 0
    id: int = 0


class ParkedLane(msgspec.Struct, frozen=True):
    """A lane as the store has it: how many rows of one partition, and when the oldest may be tried."""

    rows: int
    due_ms: int


class ParkedCount(msgspec.Struct, frozen=True):
    """Of one subscription: rows, keys, since when the oldest waits; how many of the rows are redriven."""

    rows: int
    lanes: int
    oldest_ms: int
    redriven: int = 0


class ParkedKey(msgspec.Struct, frozen=True):
    """What waits of one lane in one partition: rows, how many of them are redriven, and the oldest."""

    rows: int
    redriven: int
    oldest: Parked


Fields = tuple[tuple[str, str], ...]
"""Headers of HTTP in their order."""


class HttpExchange(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The request of one attempt and its answer, without secrets; the bodies may be clipped.

    ``size``         bytes of the whole body that was sent.
    ``status_line``  of the answer; "" if none came.
    ``answer_size``  bytes of the whole body that came; None if the answer was not read to its end.
    """

    line: str
    headers: Fields
    body: bytes
    size: int
    status_line: str = ""
    answer_headers: Fields = ()
    answer_body: bytes = b""
    answer_size: int | None = None


class Attempt(msgspec.Struct, frozen=True, gc=False):  # it can be in no cycle
    """One try to deliver one message to one subscription, as it is logged, remembered, stored and shown.

    ``number``       of the attempts of this message, from 1.
    ``started_ms``   milliseconds since the epoch.
    ``next_try_in``  seconds until the next attempt, as decided at this one; None where there is none.
    ``together``     how many events the request had.
    ``exchange``     None where nothing was sent, or it is not kept.
    """

    subscription: str
    partition: Partition
    position: str
    event: EventName
    number: int
    started_ms: int
    duration_ms: float
    outcome: str
    status: int | None = None
    detail: str = ""
    next_try_in: float | None = None
    together: int = 1
    exchange: HttpExchange | None = None


class AttemptChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which attempts are meant; what is left out chooses all. ``subscriptions``: of one of these."""

    subscription: str | None = None
    subscriptions: tuple[str, ...] = ()
    event_id: str | None = None
    event_source: str | None = None
    outcome: str | None = None


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """An event on its way that was not tried yet. ``behind``: the one of its key that is tried first;
    None: it is that one. ``parked``: it waits in the store, else in memory."""

    subscription: str
    partition: Partition
    position: str
    event: EventName
    behind: EventName | None
    parked: bool


class StoredSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription made by the API. ``document``: JSON as it was given, its credentials encrypted.
    ``version`` grows with each change: the ETag."""

    id: str
    version: int
    document: bytes
    created_ms: int
    updated_ms: int


class Halt(msgspec.Struct, frozen=True):
    """Why a subscription delivers nothing: a person paused it, or its target answered 410 (W5)."""

    kind: Literal["paused", "disabled"]
    cause: str
    since_ms: int


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What the API asks of whichever worker runs the subscription. ``body`` and ``answer`` are JSON; a
    command that nobody took within a minute is void."""

    subscription: str
    kind: Literal["test"]
    body: bytes
    asked_ms: int
    answer: bytes | None = None
    id: int = 0


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A range of one partition, to one subscription once more. ``next``: the first position that is not
    known to be finished; ``until``: the first that is not wanted. ``rate``: events a second, 0 for
    any."""

    subscription: str
    broker: str
    partition: Partition
    next: str
    until: str
    rate: float = 0.0
    asked_ms: int = 0
    done: int = 0
    id: int = 0


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """A message that waits to be pulled. ``deliveries``: how often it was handed out. ``token``: of the
    lock it was handed out under, "" where it is free. ``consumer``: name of the caller it was handed out to last."""

    subscription: str
    broker: str
    message: Message
    lane: bytes
    deliveries: int = 0
    token: str = ""
    locked_until_ms: int = 0
    at_ms: int = 0
    event: EventName = EventName()
    consumer: str = ""
    id: int = 0

    @property
    def size(self) -> int:
        """Bytes, about."""
        return len(self.message.record.body or b"")


class Commit(msgspec.Struct, frozen=True):
    """How far a group is in one partition: the lowest unfinished offset, and the finished runs above it as
    ``FinishedRuns`` writes them."""

    offset: int
    metadata: str = ""
