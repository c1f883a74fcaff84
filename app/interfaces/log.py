"""A broker, as the gateway, the worker and the API see it: the same for all.

A driver owns partitioning, wire batching and reconnection and holds no policy; ``brokers.portable``
bounds, times and wraps errors around it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from app.bindings.record import Decoded, Record
from app.errors import BrokerError, PublishUnknown
from app.filters.selection import Selection
from app.model.capabilities import Capabilities
from app.model.message import ConsumerEvent, Message, Partition
from app.model.metadata import Health, LogMetadata
from app.model.receipt import Receipt
from app.model.start import StartAt
from app.routing.identity import Identity

_log = logging.getLogger(__name__)

PublishResult = Receipt | BrokerError
"""The fate of one record: stored, or why not. A fate is never raised, so that a request whose
events meet different fates can say which."""


Told = Callable[[PublishResult], None]
"""Gets the fate of one record, once, on the event loop."""


class ConsumerFilter(msgspec.Struct, frozen=True):
    """The events that a consumer wants of its log, so that many consumers share the cost of reading.

    ``selection``  its filters. They are not evaluated on a record that is no event: that is handed out.
    ``decode``     reads a record, for all consumers of a partition alike. Raises SenderError for a record that is
                   no event.
    ``passed``     is called, now and then, with how many more messages were finished without being handed out:
                   those that did not match, and those that did not match because an expression failed.
    """

    selection: Selection
    decode: Callable[[Record], Decoded]
    passed: Callable[[int, int], None]


class Located(msgspec.Struct, frozen=True):
    """Where records may be that hold an event: partition and position of each. ``missed``: why not all of the log
    was searched; "" where it was."""

    places: tuple[tuple[Partition, str], ...]
    missed: str = ""


class Consumer(Protocol):
    """One member of a group. Not safe for use by two tasks at once, but for ``pause``, ``resume`` and
    ``nudge``.
    """

    def nudge(self) -> None:
        """The poll that waits, or the next one, returns soon, with None where there is nothing."""

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


@runtime_checkable
class Lacking(Protocol):
    """A consumer that knows which parts of its topics no member of its group reads."""

    @property
    def trouble(self) -> str:
        """Name the parts that are not read, why, and the cure; "" where all are."""


class Log(Protocol):
    """A broker, as the gateway, the worker and the API see it."""

    name: str
    capabilities: Capabilities

    async def start(self) -> None:
        """Begin. Returns also when the broker is away: ``health`` tells, and it heals by itself."""

    async def stop(self) -> None:
        """Finish what is in flight within the drain bound, then close."""

    def submit(
        self,
        topic: str,
        records: Sequence[Record],
        identities: Sequence[Identity | None] | None = None,
    ) -> asyncio.Future[list[PublishResult]]:
        """Begin to publish; the future gets one result a record, in order, and never an exception.

        Records of one call and one key are stored in their order. A full bound, an unknown topic,
        a time-out (``PublishUnknown``) are results. A record whose result is an error is never sent
        again later by us (rule 9). ``identities``, one a record: a record with one is stored once within
        its window, and a repeat gets the receipt of the first, marked ``duplicate``. Must be called on
        the event loop.
        """

    def submit_one(self, topic: str, record: Record, told: Told) -> PublishResult | None:
        """``submit`` of one record without identity, for callers with very many: its fate where that is known at
        once, otherwise None, and ``told`` gets it later. A log that has no shorter way need not define it.
        """
        stored = self.submit(topic, (record,))
        if stored.done():
            return fates_of(stored, 1)[0]
        stored.add_done_callback(lambda done: told(fates_of(done, 1)[0]))
        return None

    async def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        start: StartAt,
        *,
        client_id: str = "",
        wanted: ConsumerFilter | None = None,
    ) -> Consumer:
        """Join ``group``. Where the group has no position, ``start`` is resolved and *committed*
        before this returns or before the partition is first handed out (rule 10).

        What is not ``wanted`` may be left out, as finished; a log that cannot look hands out all.
        """

    def read(
        self, partition: Partition, start: str, until: str | None = None
    ) -> AsyncGenerator[Message, None]:
        """Read without a group, from position ``start``, up to but not including ``until``; with
        None, up to the end as it is at the call. For peek, tail, replay and pull.
        """

    async def locate(
        self,
        event_id: str,  # noqa: ARG002
        source: str | None,  # noqa: ARG002
        since_ms: int,  # noqa: ARG002
    ) -> Located | None:
        """By an index of all topics; ``source`` None: of any. What is found must be read to be sure. None: the
        log keeps no index."""
        return None

    async def position_at(self, partition: Partition, time_ms: int) -> str:
        """Of the first record stored at ``time_ms`` (since the epoch) or later; where there is none,
        that of the next record. The guide's Offset by time. Refused (``not-capable``) where the log
        cannot seek by time.
        """

    async def position_back(self, partition: Partition, count: int) -> str:
        """About ``count`` records before the end: fewer where numbers have gaps, more where one place
        holds several records; the earliest where there are not so many.
        """

    async def metadata(
        self, topics: Sequence[str] | None = None, groups: Sequence[str] = ()
    ) -> LogMetadata:
        """Topics (None: all that are ours to see), and the lag of ``groups``."""

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Make a topic; no error when it is already there."""

    async def check_targets(self, topics: Collection[str]) -> Mapping[str, str]:  # noqa: ARG002
        """Topic to why nothing would keep what is published to it now, in words for an operator; empty
        when all are good (rule 10). Makes nothing. Raises BrokerError when the broker does not tell.
        """
        return {}

    async def health(self) -> Health: ...


def fates_of(stored: asyncio.Future[list[PublishResult]], count: int) -> Sequence[PublishResult]:
    """The results of a submit of ``count`` records. A future that breaks its word has an unknown outcome
    (rule 9)."""
    try:
        return stored.result()
    except asyncio.CancelledError:
        return (PublishUnknown("the log closed before it answered"),) * count
    except Exception:  # noqa: BLE001 - whatever it was, the sender is owed an answer
        _log.exception("a log raised instead of answering")
        return (PublishUnknown("the log failed while it stored the event"),) * count
