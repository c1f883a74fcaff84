"""The interface of a broker for the gateway, the worker and the API, equal for every kind of broker.

A driver does partitioning, wire batching and reconnection, and decides no policy. ``brokers.portable`` adds
limits, time-outs and error conversion.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from app.bindings.record import Decoded, Record
from app.errors import BrokerError, PublishUnknown
from app.filters.selection import Selection
from app.model.capabilities import Capabilities
from app.model.message import ConsumerEvent, Message, Partition
from app.model.metadata import NO_GROUPS, LogHealth, LogMetadata, ReadTopics
from app.model.receipt import Receipt
from app.model.start import StartAt
from app.routing.identity import Identity

_log = logging.getLogger(__name__)

PublishResult = Receipt | BrokerError
"""The result of publishing one record: its receipt, or an error. It is returned, not raised, so that an answer
can list different results of one request.
"""


ResultCallback = Callable[[PublishResult], None]
"""A function that receives the result of one record, once, on the event loop."""


class ConsumerFilter(msgspec.Struct, frozen=True):
    """The filter by which a log selects messages for a consumer, so that consumers share the cost of reading.

    Attributes:
        selection: The subscription's filters. A record that is no event is always handed out.
        decode: Decodes a record, once for all consumers of a partition. Raises SenderError if it is no event.
        passed: Called now and then with two counts of messages that were finished without being handed out
            since the last call. The first counts messages that did not match, the second those whose
            expression failed.
    """

    selection: Selection
    decode: Callable[[Record], Decoded]
    passed: Callable[[int, int], None]


class Located(msgspec.Struct, frozen=True):
    """Positions of records that may hold an event.

    Attributes:
        places: The partition and position of each record.
        missed: Why not all of the log was searched, or "".
    """

    places: tuple[tuple[Partition, str], ...]
    missed: str = ""


class Consumer(Protocol):
    """One member of a group.

    Only one task may use it at a time, except for ``pause``, ``resume`` and ``nudge``.
    """

    def nudge(self) -> None:
        """Make a waiting ``poll``, or else the next one, return soon. It returns None if there are no messages."""

    async def poll(self, wait: float) -> ConsumerEvent | None:
        """Return the next batch of messages or change of ownership, or None after ``wait`` seconds without
        either.

        The next call after a ``Revoked`` shows that the worker has handled the revocation. The driver then commits
        what is finished and gives the partitions up. Raises PositionOutOfRange if a position is outside of the log.
        """

    async def settle(self, messages: Collection[Message]) -> None:
        """Mark messages as finished, in any order. Repeated calls and messages of an older epoch have no effect.

        A log with positions commits the lowest unfinished position. The commit's metadata has the finished ranges
        above it. The driver may delay a commit by its commit interval, but not beyond a revocation or ``close``.
        """

    def window(self, partition: Partition) -> int:
        """Return the distance from the commit position to the newest message that was handed out."""

    def pause(self, partitions: Collection[Partition]) -> None:
        """Hand out no messages of these partitions until ``resume``, or until they are assigned again. Ownership is kept."""

    def resume(self, partitions: Collection[Partition]) -> None:
        """Hand out messages of these partitions again."""

    def holds(self, message: Message) -> bool:
        """Return True if this member still owns the message's partition under the message's epoch.

        It decides by the monotonic clock, without asking the broker. The worker calls it before each attempt.
        """

    async def commit(self) -> None:
        """Commit what is finished now, not at the next interval."""

    async def close(self) -> None:
        """Commit what is finished, leave the group and give up all partitions."""


class Log(Protocol):
    """A broker, as the gateway, the worker and the API use it."""

    name: str
    capabilities: Capabilities

    async def start(self) -> None:
        """Start the log. It returns even if the broker is unavailable: ``health`` reports that, and the driver
        reconnects.
        """

    async def stop(self) -> None:
        """Finish what is in flight within the drain limit, then close."""

    def submit(
        self,
        topic: str,
        records: Sequence[Record],
        identities: Sequence[Identity | None] | None = None,
    ) -> asyncio.Future[list[PublishResult]]:
        """Start to publish records. The future gets one result per record, in order, and never an exception.

        Records of one call with the same key are stored in order. An exceeded limit, an unknown topic and a
        time-out (``PublishUnknown``) are returned as results. A record with an error as result is never sent again
        later.

        Call it on the event loop only.

        Args:
            topic: The topic, or the place as ``routing.places`` writes it.
            records: The records.
            identities: One per record. A record with an identity is stored once within its window, and a
                repeat gets the first receipt, marked ``duplicate``.
        """

    def submit_one(
        self, topic: str, record: Record, on_result: ResultCallback
    ) -> PublishResult | None:
        """Publish one record without identity, for callers with very many records.

        Returns the result if it is known at once. Otherwise returns None, and calls ``on_result`` with the result
        later.
        """
        stored = self.submit(topic, (record,))
        if stored.done():
            return results_of(stored, 1)[0]
        stored.add_done_callback(lambda done: on_result(results_of(done, 1)[0]))
        return None

    async def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        start: StartAt,
        *,
        client_id: str = "",
        wanted: ConsumerFilter | None = None,
        shared: str = "",
    ) -> Consumer:
        """Join a group, and return the consumer.

        If the group has no position, ``start`` is resolved and committed before this returns or before the
        partition is first handed out.

        Args:
            group: The group.
            topics: The topics to read.
            start: Where the group begins without a committed position.
            client_id: The name of the client for the broker.
            wanted: A filter. The log may finish messages that do not match, without handing them out, if it can
                decode them.
            shared: The group whose membership the subscription shares (``sharing: topic``), or "". Only Kafka has
                such groups.
        """

    def read(
        self, partition: Partition, start: str, until: str | None = None
    ) -> AsyncGenerator[Message, None]:
        """Read messages without a group, for peek, tail, replay and pull.

        Args:
            partition: The partition.
            start: The first position.
            until: The position after the last message. None means the end of the partition at the time of the
                call.
        """

    async def locate(
        self,
        event_id: str,  # noqa: ARG002
        source: str | None,  # noqa: ARG002
        since_ms: int,  # noqa: ARG002
    ) -> Located | None:
        """Return the positions that the log's index has for an event id, or None if the log has no index.

        A found record must be read to be sure.

        Args:
            event_id: The id of the event.
            source: The source of the event, or None for any.
            since_ms: The earliest time of the record in ms since 1970.
        """
        return None

    async def position_at(self, partition: Partition, time_ms: int) -> str:
        """Return the position of the first record stored at ``time_ms`` (since 1970) or later, or of the next
        record.

        A log that cannot seek by time refuses it (``not-capable``).
        """

    async def position_back(self, partition: Partition, count: int) -> str:
        """Return a position about ``count`` records before the end, or the earliest one.

        The distance is shorter if positions have gaps, and longer if one position holds several records.
        """

    async def metadata(
        self, topics: Sequence[str] | None = None, groups: ReadTopics = NO_GROUPS
    ) -> LogMetadata:
        """Return the topics that exist, and the lag of groups. Nothing is created.

        Args:
            topics: The topics. None means all topics that Skybridge may see.
            groups: The groups, each with those of the topics that it reads.
        """

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic. An existing topic is no error."""

    async def check_targets(self, topics: Collection[str]) -> Mapping[str, str]:  # noqa: ARG002
        """Return the topics that would not keep published records now, with the reason for an operator.

        It creates nothing. Raises BrokerError if the broker does not answer.
        """
        return {}

    async def health(self) -> LogHealth:
        """Return the health of the log."""


def results_of(stored: asyncio.Future[list[PublishResult]], count: int) -> Sequence[PublishResult]:
    """Return the results of a submit of ``count`` records. If the future has an exception, the result of each
    record is unknown."""
    try:
        return stored.result()
    except asyncio.CancelledError:
        return (PublishUnknown("the log closed before it answered"),) * count
    except Exception:  # noqa: BLE001 - the sender needs an answer, whatever the error was
        _log.exception("a log raised instead of answering")
        return (PublishUnknown("the log failed while it stored the event"),) * count
