"""What a broker's package offers to ``PortableLog``, and what it is given to publish."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from app.bindings.record import Record
from app.errors import BrokerError, BrokerUnavailable
from app.interfaces import Consumer, ConsumerFilter, Located, PublishResult, Told
from app.model.capabilities import Capabilities
from app.model.message import Message, Partition
from app.model.metadata import Health, LogMetadata
from app.model.start import StartAt
from app.routing.identity import Identity


class Ledger(Protocol):
    """The counter of what is under way."""

    def release(self, submission: Submission) -> None:
        """Every record of it has its fate."""


class Submission(asyncio.Future[list[PublishResult]]):
    """The records of one submit, and their fates: one a record, in order.

    A driver resolves *every* record exactly once, also when the submission is done already (it
    timed out, or its caller went away): only then does the record leave the bounds. What is not on
    the wire when ``done()`` is true must not be sent any more (rule 9).
    """

    __slots__ = (
        "deadline", "identities", "open", "owner", "records", "results", "size", "told", "topic",
    )  # fmt: skip

    owner: Ledger
    topic: str
    records: Sequence[Record]
    identities: Sequence[Identity | None] | None  # for a driver that remembers them
    results: list[PublishResult | None]
    open: int  # records without a result
    size: int  # bytes
    deadline: float  # of the loop's clock
    told: Told | None  # instead of a callback of the future: called in the step that has the fate

    def resolve(self, index: int, result: PublishResult) -> None:
        """The fate of one record. On the event loop only."""
        self.results[index] = result
        self.open -= 1
        if not self.open:
            self.owner.release(self)

    def resolve_all(self, results: list[PublishResult]) -> None:
        """The fates of all records at once; none may have been resolved before."""
        self.results = results  # type: ignore[assignment]  # a list with nothing open
        self.open = 0
        self.owner.release(self)

    def fail(self, error: BrokerError) -> None:
        """The same fate for every record that has none yet."""
        if self.open:
            self.results[:] = [error if known is None else known for known in self.results]
            self.open = 0
            self.owner.release(self)


DROPPED = BrokerUnavailable("dropped before it was on the wire: its caller has had an answer")

Entry = TypeVar("Entry", bound="tuple[Submission, int, *tuple[Any, ...]]")
"""A record on its way: where its fate goes (the submission and the index in it), and what the driver adds."""


def unanswered(entries: Iterable[Entry]) -> list[Entry]:
    """Those that somebody still waits for; the others get what nobody will see (rule 9)."""
    kept: list[Entry] = []
    for entry in entries:
        if entry[0].done():
            entry[0].resolve(entry[1], DROPPED)
        else:
            kept.append(entry)
    return kept


def answer(entries: Iterable[Entry], error: BrokerError) -> None:
    for entry in entries:
        entry[0].resolve(entry[1], error)


class Joining(NamedTuple):
    """How a member joins ``group``. ``client_id``: empty where the settings of the broker name one."""

    group: str
    topics: Sequence[str]
    start: StartAt
    client_id: str = ""
    wanted: ConsumerFilter | None = None


class Driver(Protocol):
    """What a broker's package offers to ``PortableLog``. All calls come on the event loop."""

    name: str
    capabilities: Capabilities

    async def start(self) -> None:
        """Begin; returns also when the broker is away (``health`` tells). May raise SetupError."""

    async def stop(self) -> None:
        """Close. What is still queued is resolved with an error."""

    def publish(self, submission: Submission) -> None:
        """Take the records on their way, in order. Never raises, never blocks, sets no timer."""

    async def subscribe(self, joining: Joining) -> Consumer:
        """A driver that looks into the records itself leaves out those that are not ``wanted``."""

    def read(
        self, partition: Partition, start: str, until: str | None
    ) -> AsyncGenerator[Message, None]: ...

    async def position_at(self, partition: Partition, time_ms: int) -> str: ...
    async def position_back(self, partition: Partition, count: int) -> str: ...
    async def metadata(
        self, topics: Sequence[str] | None, groups: Sequence[str]
    ) -> LogMetadata: ...
    async def create_topic(self, topic: str, partitions: int) -> None: ...

    async def check_targets(self, topics: Collection[str]) -> Mapping[str, str]:
        """Why nothing would keep what is published to a topic now, in words for an operator; without
        those that are good (rule 10). Makes nothing. Raises what ``explain`` knows."""

    async def health(self) -> Health: ...

    def translate(self, error: Exception) -> BrokerError | None:
        """What an error of the client library means for a caller; None: it is a bug."""


@runtime_checkable
class Locating(Protocol):
    """A driver whose log keeps an index of events; see ``interfaces.Log.locate``."""

    async def locate(self, event_id: str, source: str | None, since_ms: int) -> Located: ...


def quieten(client: str) -> None:
    """The logger of a client library, which tells of every attempt, many a second in an outage; our own
    lines name the cause once. A level that was set for it stays."""
    logger = logging.getLogger(client)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
