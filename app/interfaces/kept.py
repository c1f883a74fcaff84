"""The values that the store holds, one class per kind of row."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

import msgspec

from app.bindings.record import Decoded
from app.model.message import Message, Partition


class EventName(msgspec.Struct, frozen=True, gc=False):  # an instance can be in no reference cycle
    """The attributes by which people search for an event. They are empty for a record that is no event."""

    id: str = ""
    source: str = ""
    type: str = ""


def event_name(decoded: Decoded | None) -> EventName:
    """Return the name of a decoded event, or an empty name for None."""
    if decoded is None:
        return EventName()
    named = decoded.event.attributes.get
    return EventName(named("id", ""), named("source", ""), named("type", ""))


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that Skybridge gave up, with everything needed to redrive it.

    Attributes:
        message: The message. Its ``epoch`` is that of the partition owner that writes it. The store refuses an old
            epoch.
        cause: A stable code, such as ``status-415``, ``schedule-exhausted`` or ``foreign``.
        detail: The last answer in words, shortened.
        lane: The ordering key of the message (its lane), as in ``Parked``.
        id: The number that the store assigns, in order of writing. 0 before that.
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


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of dead letters. Absent conditions match all.

    ``since_ms`` is included in the range, ``until_ms`` is not. ``type`` may end with ``*``. ``subscriptions`` lists
    alternatives.
    """

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
    """A message that waits in the store for its next attempt, or that a redrive put back.

    Attributes:
        lane: The ordering key of the message. Rows with one key are delivered in the order of their offsets, per
            partition.
        redriven: True if it was a dead letter. Later events with its key do not wait for it.
        steps: The number of waits of the retry schedule that are used up.
        due_ms: The wall-clock time of the next attempt, in ms since 1970.
        at_ms: The time since which it waits, in ms since 1970.
        letter: The id of the dead letter that it was, or 0. Redriven rows with one key are delivered in this order.
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


class StoredLane(msgspec.Struct, frozen=True):
    """The parked rows with one ordering key (lane) in one partition: their number, and when the oldest row is due,
    in ms."""

    rows: int
    due_ms: int


class ParkedCount(msgspec.Struct, frozen=True):
    """The numbers of parked rows, of their keys, of rows without a key, and of redriven rows of one subscription.

    ``oldest_ms`` is when the oldest row began to wait, in ms since 1970."""

    rows: int
    keys: int
    keyless: int
    oldest_ms: int
    redriven: int = 0


class QueueCount(msgspec.Struct, frozen=True):
    """The messages in one pull queue: their number, and the time since which the oldest waits (ms)."""

    rows: int
    oldest_ms: int


class ParkedKey(msgspec.Struct, frozen=True):
    """The parked rows with one ordering key (lane) in one partition, and the oldest of these rows."""

    rows: int
    redriven: int
    oldest: Parked


Fields = tuple[tuple[str, str], ...]
"""HTTP header fields in order."""


class HttpExchange(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The request of one attempt and its answer, without secrets. Bodies may be shortened.

    Attributes:
        size: The bytes of the whole request body.
        status_line: The status line of the answer, or "" if none came.
        answer_size: The bytes of the whole answer body. None if it was not read to its end.
        until_ms: When the store deletes this exchange, in ms since the epoch. 0 if it is not stored.
    """

    line: str
    headers: Fields
    body: bytes
    size: int
    status_line: str = ""
    answer_headers: Fields = ()
    answer_body: bytes = b""
    answer_size: int | None = None
    until_ms: int = 0


class Attempt(msgspec.Struct, frozen=True, gc=False):  # an instance can be in no reference cycle
    """One attempt to deliver one message to one subscription.

    Attributes:
        number: The number of this attempt among those of the message, from 1.
        next_try_in: Seconds until the next attempt. None if there will be none.
        together: The number of events in the request.
        exchange: The request and its answer. None if nothing was sent or it is not stored.
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


class AttemptFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of attempts. Absent conditions match all. ``subscriptions`` lists alternatives."""

    subscription: str | None = None
    subscriptions: tuple[str, ...] = ()
    event_id: str | None = None
    event_source: str | None = None
    outcome: str | None = None


class WaitingEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that has not been attempted yet.

    Attributes:
        ``behind``: The event of the same key that is attempted first. None if it is this event.
        parked: True if it waits in the store, False if it waits in memory.
    """

    subscription: str
    partition: Partition
    position: str
    event: EventName
    behind: EventName | None
    parked: bool


class StoredSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription that was created by the API.

    Attributes:
        version: A number that grows with each change, used as ETag.
        document: The JSON document as given, with encrypted credentials.
        owner: ``kubernetes`` if an object of Kubernetes declares it, else "".
    """

    id: str
    version: int
    document: bytes
    created_ms: int
    updated_ms: int
    owner: str = ""


class SubscriptionTotals(NamedTuple):
    """Totals of all stored subscriptions. Two readers with equal totals have read the same rows, unless sums of times
    in ms are equal by chance.

    Attributes:
        rows: The number of subscriptions.
        versions: The sum of their versions.
        updated_ms: The sum of the times of their last changes, in ms since the epoch.
    """

    rows: int
    versions: int
    updated_ms: int

    @classmethod
    def of(cls, rows: Collection[StoredSubscription]) -> SubscriptionTotals:
        """Return the totals of rows."""
        return cls(
            len(rows), sum(each.version for each in rows), sum(each.updated_ms for each in rows)
        )


class SubscriptionChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The stored subscriptions that changed after a revision of the store.

    Attributes:
        revision: The revision of the store, read before the rows.
        changed: Their present rows, in the order of their ids. Deleted ones are missing.
        totals: The totals of all stored subscriptions.
    """

    revision: int
    changed: list[StoredSubscription]
    totals: SubscriptionTotals


class Halt(msgspec.Struct, frozen=True):
    """The reason why a subscription delivers nothing: an operator paused it, or its target answered 410 and
    disabled it.
    """

    kind: Literal["paused", "disabled"]
    cause: str
    since_ms: int


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A request of the API to the worker that runs a subscription. A command that no worker takes within a
    minute is void.

    Attributes:
        body: The parameters, as JSON.
        answer: The worker's answer, as JSON. None until it answers.
    """

    subscription: str
    kind: Literal["test", "retry"]
    body: bytes
    asked_ms: int
    answer: bytes | None = None
    id: int = 0


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A range of one partition that is delivered to one subscription again.

    Attributes:
        next: The first position that may be unfinished.
        until: The first position after the range.
        rate: Events per second; 0 for no limit.
    """

    subscription: str
    broker: str
    partition: Partition
    next: str
    until: str
    rate: float = 0.0
    asked_ms: int = 0
    done: int = 0
    id: int = 0


class PullMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message in a pull queue.

    Attributes:
        lane: The ordering key of the message.
        deliveries: The number of times that consumers received it.
        token: The lock token, or "" if it is not locked.
        locked_until_ms: The end of the lock in ms since 1970.
        at_ms: The time since which it waits, in ms since 1970.
        consumer: The name of the caller that received it last.
    """

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
        """Return the bytes of the body, as an estimate of the size."""
        return len(self.message.record.body or b"")


class Commit(msgspec.Struct, frozen=True):
    """The committed position of a group in one partition.

    Attributes:
        offset: The lowest unfinished offset.
        metadata: The finished ranges above it, as ``FinishedRuns`` writes them.
    """

    offset: int
    metadata: str = ""


class Progress(msgspec.Struct, frozen=True):
    """The position of a subscription in one partition that it reads through a shared group.

    Attributes:
        offset: The lowest unfinished offset.
        finished: The finished ranges above it, as ``FinishedRuns`` writes them.
        apart: Whether the subscription has left the floor of the partition. Otherwise its position is never below
            the floor.
    """

    offset: int
    finished: str = ""
    apart: bool = False
