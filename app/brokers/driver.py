"""The interface that each broker's package implements for ``PortableLog``, and the submissions that it
publishes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from app.bindings.record import Record
from app.errors import BrokerError, BrokerUnavailable
from app.interfaces import Consumer, ConsumerFilter, Located, PublishResult, ResultCallback
from app.model.capabilities import Capabilities
from app.model.message import Message, Partition
from app.model.metadata import LogHealth, LogMetadata, ReadTopics
from app.model.start import StartAt
from app.routing.identity import Identity


class SubmissionOwner(Protocol):
    """The owner of submissions, which counts the records in flight."""

    def release(self, submission: Submission) -> None:
        """Remove a submission from the count, because all of its records have a result."""


class Submission(asyncio.Future[list[PublishResult]]):
    """The records of one call of submit, and a future for their results: one for each record, in order.

    A driver resolves *every* record exactly once. It does so even if the future is done already, after a
    time-out or a cancellation. A record counts as in flight until it is resolved. When ``done()`` is true,
    records that are not yet on the wire must not be sent.
    """

    __slots__ = (
        "deadline", "identities", "on_result", "open", "owner", "records", "results", "size", "topic",
    )  # fmt: skip

    owner: SubmissionOwner
    topic: str
    records: Sequence[Record]
    identities: Sequence[Identity | None] | None  # for a driver that deduplicates by them
    results: list[PublishResult | None]
    open: int  # records without a result
    size: int  # bytes
    deadline: float  # by the clock of the event loop, in seconds
    on_result: (
        ResultCallback | None
    )  # called with the result at once, where a future's callback comes a step later

    def resolve(self, index: int, result: PublishResult) -> None:
        """Set the result of one record. Must be called on the event loop."""
        self.results[index] = result
        self.open -= 1
        if not self.open:
            self.owner.release(self)

    def resolve_all(self, results: list[PublishResult]) -> None:
        """Set the results of all records at once. None of them may have a result already."""
        self.results = results  # type: ignore[assignment]  # a list without None
        self.open = 0
        self.owner.release(self)

    def fail(self, error: BrokerError) -> None:
        """Set ``error`` as the result of every record that has none yet."""
        if self.open:
            self.results[:] = [error if known is None else known for known in self.results]
            self.open = 0
            self.owner.release(self)


DROPPED = BrokerUnavailable("the record was dropped before it was sent: its publish had ended")

Entry = TypeVar("Entry", bound="tuple[Submission, int, *tuple[Any, ...]]")
"""A record to send: its submission, its index in the submission, and further values that the driver needs."""


def unanswered(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries whose callers still wait for a result. Resolve all other entries, which must not be
    sent."""
    kept: list[Entry] = []
    for entry in entries:
        if entry[0].done():
            entry[0].resolve(entry[1], DROPPED)
        else:
            kept.append(entry)
    return kept


def answer(entries: Iterable[Entry], error: BrokerError) -> None:
    """Set ``error`` as the result of every entry, because none of them will be sent."""
    for entry in entries:
        entry[0].resolve(entry[1], error)


class JoinRequest(NamedTuple):
    """A request to join a consumer group.

    ``client_id`` is empty if the broker's settings name one. ``shared`` is the group whose membership the subscription
    shares with others (ADR 0055), or empty.
    """

    group: str
    topics: Sequence[str]
    start: StartAt
    client_id: str = ""
    wanted: ConsumerFilter | None = None
    shared: str = ""


class Driver(Protocol):
    """The interface of a broker's package towards ``PortableLog``. All calls come on the event loop."""

    name: str
    capabilities: Capabilities

    async def start(self) -> None:
        """Start the driver. If the broker is away, return anyway; ``health`` reports that. May raise
        SetupError."""

    async def stop(self) -> None:
        """Close the driver. Records that are still queued are resolved with an error."""

    def publish(self, submission: Submission) -> None:
        """Queue the records for sending, in their order. Must not raise, block or set a timer."""

    async def subscribe(self, joining: JoinRequest) -> Consumer:
        """Join a group. If the driver decodes records itself, it leaves out the events that
        ``joining.wanted`` excludes."""

    def read(
        self, partition: Partition, start: str, until: str | None
    ) -> AsyncGenerator[Message, None]: ...

    async def position_at(self, partition: Partition, time_ms: int) -> str: ...
    async def position_back(self, partition: Partition, count: int) -> str: ...
    async def metadata(self, topics: Sequence[str] | None, groups: ReadTopics) -> LogMetadata: ...
    async def create_topic(self, topic: str, partitions: int) -> None: ...

    async def check_targets(self, topics: Collection[str]) -> Mapping[str, str]:
        """Return the topics that would lose events published to them now, each with the reason. The reason is
        for an operator.

        Topics without a problem are left out. Nothing is created. The method raises only errors that
        ``translate`` knows.
        """

    async def health(self) -> LogHealth: ...

    def translate(self, error: Exception) -> BrokerError | None:
        """Return the broker error that an error of the client library means, or None if it is a bug."""


@runtime_checkable
class EventLocator(Protocol):
    """A driver whose log has an index of events. See ``interfaces.Log.locate``."""

    async def locate(self, event_id: str, source: str | None, since_ms: int) -> Located: ...


def quieten(client: str) -> None:
    """Silence the logger of a client library, unless its level was set before.

    Client libraries log every connection attempt, which is many each second of an outage. Skybridge logs the
    cause once.
    """
    logger = logging.getLogger(client)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
