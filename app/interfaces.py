"""What the shell offers to whom. Protocols only: nothing here does anything.

The log interface is the same for every broker. A driver owns partitioning, wire batching and
reconnection and holds no policy; ``brokers.portable`` bounds, times and wraps errors around it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from app.bindings.record import Record
from app.errors import BrokerError
from app.model.capabilities import Capabilities
from app.model.message import ConsumerEvent, Message, Partition
from app.model.metadata import Health, LogMetadata
from app.model.receipt import Receipt
from app.model.start import StartAt

PublishResult = Receipt | BrokerError
"""The fate of one record: stored, or why not. A fate is never raised, so that a request whose
events meet different fates can say which."""


class Clock(Protocol):
    """The only source of time in the shell, so that tests can move it."""

    def now(self) -> float:
        """Wall clock, seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that never go back; for timers and leases."""

    async def sleep(self, seconds: float) -> None: ...


class Consumer(Protocol):
    """One member of a group. Not safe for use by two tasks at once, but for ``pause``/``resume``."""

    async def poll(self, wait: float) -> ConsumerEvent | None:
        """The next batch of messages or change of ownership; None after ``wait`` seconds of neither.

        Asking for the next item is also the sign that a ``Revoked`` just returned has been dealt
        with: the driver then commits what is settled and lets the partitions go.
        A position outside the log raises PositionOutOfRange (rule 10): the subscription stops.
        """

    async def settle(self, messages: Collection[Message]) -> None:
        """These messages are *finished* (rule 2). Idempotent. Finished ones may come in any order.

        A log that knows only positions commits the lowest unfinished one, with the finished runs
        above it in the commit's metadata text; the commit itself may be deferred by up to the
        driver's commit interval, and is made on revocation and close.
        Messages of an older epoch are ignored.
        """

    def window(self, partition: Partition) -> int:
        """Distance from the commit position to the newest message handed out (rule 4)."""

    def pause(self, partitions: Collection[Partition]) -> None:
        """Hand out nothing from these until ``resume``. Ownership is kept."""

    def resume(self, partitions: Collection[Partition]) -> None: ...

    def holds(self, message: Message) -> bool:
        """Whether this member still owns the message's partition under the message's epoch, by the
        monotonic clock and without asking anybody: looked at before each attempt (rule 5).
        """

    async def commit(self) -> None:
        """Commit what is settled now, rather than at the next interval."""

    async def close(self) -> None:
        """Commit what is settled, leave the group, give everything back."""


class Log(Protocol):
    """A broker, as the gateway, the worker and the API see it."""

    name: str
    capabilities: Capabilities

    async def start(self) -> None:
        """Begin. Returns also when the broker is away: ``health`` tells, and it heals by itself."""

    async def stop(self) -> None:
        """Finish what is in flight within the drain bound, then close."""

    def submit(self, topic: str, records: Sequence[Record]) -> asyncio.Future[list[PublishResult]]:
        """Begin to publish; the future gets one result a record, in order, and never an exception.

        Records of one call and one key are stored in their order. A full bound, an unknown topic,
        a time-out (``PublishUnknown``) are results. A record whose result is an error is never sent
        again later by us (rule 9). Must be called on the event loop.
        """

    async def subscribe(
        self, group: str, topics: Sequence[str], start: StartAt, *, client_id: str = ""
    ) -> Consumer:
        """Join ``group``. Where the group has no position, ``start`` is resolved and *committed*
        before this returns or before the partition is first handed out (rule 10).
        """

    def read(
        self, partition: Partition, start: str, until: str | None = None
    ) -> AsyncIterator[Message]:
        """Read without a group, from position ``start``, up to but not including ``until``; with
        None, up to the end as it is at the call. For peek, tail, replay and pull.
        """

    async def metadata(
        self, topics: Sequence[str] | None = None, groups: Sequence[str] = ()
    ) -> LogMetadata:
        """Topics (None: all that are ours to see), and the lag of ``groups``."""

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Make a topic; no error when it is already there."""

    async def health(self) -> Health: ...


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that will not be delivered, with everything needed to redrive it.

    ``cause``    stable code (``status-415``, ``schedule-exhausted``, ``foreign``); counted by it.
    ``detail``   for a person: the last answer, clipped.
    ``at_ms``    milliseconds since the epoch. ``epoch``: of the owner that writes; stale is refused.
    """

    subscription: str
    broker: str
    message: Message
    cause: str
    detail: str
    attempts: int
    status: int | None
    at_ms: int


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try to deliver one message to one subscription: the wide line of the log."""

    subscription: str
    partition: Partition
    position: str
    event_id: str
    event_source: str
    number: int
    started_ms: int
    duration_ms: float
    outcome: str
    status: int | None = None
    detail: str = ""
    next_try_in: float | None = None


class Store(Protocol):
    """What must outlive a process beside the log. Every write is durable when it returns."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...

    async def own(
        self, subscription: str, broker: str, partitions: Collection[Partition], epoch: int
    ) -> None:
        """Called on assignment: this epoch is the newest of these partitions from now on, whatever
        was noted before (a log whose group was away for long may count anew). An older one is stale.
        """

    async def add_dead_letter(self, letter: DeadLetter) -> None:
        """Unique by (subscription, broker, topic, partition, position): a second write of the same
        is no error and changes nothing. A stale epoch raises StaleOwner.
        """

    async def dead_letters(
        self, subscription: str | None = None, limit: int = 100
    ) -> list[DeadLetter]: ...

    async def count_dead_letters(self) -> Mapping[tuple[str, str], int]:
        """(subscription, cause) to count."""

    async def set_disabled(self, subscription: str, cause: str) -> None:
        """A subscription whose target answered 410 stays disabled through restarts."""

    async def disabled(self) -> Mapping[str, str]:
        """Disabled subscriptions with their cause."""

    async def enable(self, subscription: str) -> None: ...
    async def health(self) -> Health: ...


class SinkRequest(msgspec.Struct, frozen=True):
    """One HTTP request to a webhook, ready to send. ``timeout`` in seconds, in total."""

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    timeout: float


class SinkAnswer(msgspec.Struct, frozen=True):
    """What came back. ``status`` None: none came; ``fault`` then says what happened.

    ``fault``        ``timeout``, ``dns``, ``connect``, ``tls``, ``reset``, ``blocked-address``,
                     ``bad-request`` (the request itself cannot be sent), or "".
    ``retry_after``  the raw header value, unparsed. ``body``: clipped to the response bound.
    """

    status: int | None
    fault: str = ""
    detail: str = ""
    retry_after: str | None = None
    body: bytes = b""


class Sink(Protocol):
    """Sends one attempt. Holds no policy; never raises for what a target can do to it."""

    async def send(self, request: SinkRequest) -> SinkAnswer: ...
    async def stop(self) -> None: ...
