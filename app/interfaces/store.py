"""The interface of the store: data that outlives a process and is not in the log, one protocol per purpose.

Every write is durable when it returns, and may be repeated. Callers pass the time (``now_ms``), so that tests
can control it. Methods raise StoreUnavailable if the store does not answer in time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

from app.interfaces import kept
from app.interfaces.alerts import AlertStore
from app.interfaces.audit import AuditTrail
from app.interfaces.clock import Clock
from app.interfaces.retrying import RetryResult
from app.model.message import Partition
from app.model.metadata import LogHealth


class Owners(Protocol):
    """The owners of partitions, by which the store refuses writes of an earlier owner."""

    async def own(
        self,
        subscription: str,
        broker: str,
        partitions: Collection[Partition],
        epoch: int,
        *,
        newest: bool = False,
    ) -> None:
        """Record the owner's epoch after an assignment: writes with any other epoch are refused from now on.

        With ``newest``, for logs whose epochs grow, raises StaleOwner if a greater epoch is recorded. Without
        it, the last caller is the owner.
        """


class DeadLetters(Protocol):
    """Messages that Skybridge gave up."""

    async def add(self, letter: kept.DeadLetter, parked: int | None = None) -> None:
        """Store a dead letter. Nothing is stored if the subscription already has one for this partition and
        position.

        Raises StaleOwner for an old epoch, and StoreFull.
        """

    async def find(
        self, choice: kept.DeadLetterFilter, limit: int = 100, before: int | None = None
    ) -> list[kept.DeadLetter]:
        """Return matching dead letters, newest first. With ``before``, return only dead letters with a lower id,
        for the next page."""

    async def count(self, choice: kept.DeadLetterFilter) -> Mapping[tuple[str, str], int]:
        """Return the number of dead letters by subscription and cause."""

    async def count_over_time(
        self, choice: kept.DeadLetterFilter, every_ms: int
    ) -> Mapping[tuple[int, str], int]:
        """Return the number of dead letters by start of the interval (ms since 1970) and cause, without empty
        intervals.
        """

    async def discard(self, choice: kept.DeadLetterFilter) -> int:
        """Delete matching dead letters, and return their number."""

    async def redrive(
        self, choice: kept.DeadLetterFilter, *, rate: float, now_ms: int, limit: int
    ) -> int:
        """Turn the oldest ``limit`` matching dead letters into parked rows (redriven), in one transaction, and
        return their number.

        They become due one after the other at ``rate`` per second (0: at once), after earlier redriven rows. Their
        attempts are counted from 1 again.
        """


class ParkedMessages(Protocol):
    """Messages that wait in the store for their next attempt."""

    async def park(self, rows: Sequence[kept.Parked], *, numbered: bool = False) -> None:
        """Store all rows or none. An existing row stays unchanged. Raises StaleOwner or StoreFull.

        Args:
            rows: The rows.
            numbered: The log has no lasting positions: each row gets the next free number of its partition as
                offset.
        """

    async def lanes(
        self, subscription: str, broker: str, partitions: Collection[Partition]
    ) -> Mapping[Partition, Mapping[bytes, kept.StoredLane]]:
        """Return the ordering keys (lanes) with parked rows, by partition. Redriven rows are not counted."""

    async def rows(
        self,
        subscription: str,
        broker: str,
        partition: Partition,
        lane: bytes,
        *,
        after: int,
        limit: int,
        epoch: int | None = None,
    ) -> list[kept.Parked]:
        """Return the oldest parked rows with one key (its lane) and an offset above ``after`` (-1: any). Redriven
        rows are left out.

        Their messages get the epoch ``epoch`` of the reader, or keep that of the writer (None).
        """

    async def redriven(
        self,
        subscription: str,
        broker: str,
        epochs: Mapping[Partition, int],
        *,
        limit: int,
    ) -> list[kept.Parked]:
        """Return redriven rows of these partitions, due or not, in the order in which they are due.

        A row is left out while an earlier dead letter with the same key is due later. The messages get the reader's
        epochs.
        """

    async def unpark(self, rows: Sequence[kept.Parked]) -> None:
        """Delete finished rows. Raises StaleOwner if the epoch of a message is old."""

    async def defer(self, row: kept.Parked) -> None:
        """Store steps, attempts, due time, cause and detail of a row. Raises StaleOwner."""

    async def count(self) -> Mapping[str, kept.ParkedCount]:
        """Return the number of parked rows and keys by subscription, with redriven rows."""

    async def find(
        self,
        subscription: str | None = None,
        limit: int = 100,
        after: int = 0,
        event_id: str | None = None,
    ) -> list[kept.Parked]:
        """Return rows with an id above ``after``, in order of id."""

    async def keys(self, subscription: str | None = None, limit: int = 100) -> list[kept.ParkedKey]:
        """Return the keys with parked rows, in the order in which their oldest rows were written. Redriven rows
        count too.

        The oldest row of each key has no body, because a thousand bodies may have a MiB each.
        """


class Attempts(Protocol):
    """The newest attempts of deliveries, stored for operators to look at."""

    async def add(
        self, attempts: Sequence[kept.Attempt], latest: Sequence[kept.Attempt] = ()
    ) -> None:
        """Store attempts. Each of ``latest``, a success, replaces the previous success of its subscription."""

    async def find(self, choice: kept.AttemptFilter, limit: int = 100) -> list[kept.Attempt]:
        """Return matching attempts, newest first."""

    async def trim(self, *, before_ms: int, most: int) -> int:
        """Delete the oldest attempts above the retention or the maximum, and return their number."""

    async def forget_exchanges(self, *, since_ms: int, before_ms: int) -> None:
        """Delete headers and bodies of the attempts that started in this time, and keep their rows."""


class SubscriptionRegistry(Protocol):
    """Subscriptions that were created by the API."""

    async def all(self) -> list[kept.StoredSubscription]:
        """Return all subscriptions."""

    async def changes(self, since: int) -> kept.SubscriptionChanges:
        """Return what changed after the revision ``since``. If the store is at a lower one, because a backup was
        restored, return all subscriptions. If it is at ``since``, return no subscriptions and totals of 0.

        A caller that has applied all changes has other totals only after a deletion, or if a restored backup has had as
        many changes since.
        """

    async def ids(self) -> frozenset[str]:
        """Return the ids of all subscriptions."""

    async def get(self, subscription: str) -> kept.StoredSubscription | None:
        """Return one subscription, or None."""

    async def put(
        self,
        subscription: str,
        document: bytes,
        *,
        expected: int | None,
        now_ms: int,
        owner: str = "",
    ) -> kept.StoredSubscription:
        """Store a subscription. Raises VersionConflict if its version is not ``expected`` (0: new, None: any).
        ``owner`` applies to a new one; an existing one keeps its owner."""

    async def delete(self, subscription: str, *, expected: int | None) -> bool:
        """Delete a subscription with its halt, commands, consents, replays, parked and pulled rows. Dead letters
        stay.

        Returns False if the subscription does not exist.
        """

    async def clear(self, subscription: str) -> None:
        """Delete the remaining rows of a subscription that is already deleted. Its worker may have written rows
        until it ended.

        A later subscription with the same id must not inherit these rows. An existing subscription is not changed.
        """

    async def revision(self) -> int:
        """Return a number that grows with every change of subscriptions, halts, commands, replays, redrives and
        consents.

        Reading it is cheap.
        """


class Halts(Protocol):
    """The subscriptions that an operator paused, or that are disabled after an answer 410."""

    async def all(self) -> Mapping[str, kept.Halt]:
        """Return all halts by subscription."""

    async def halt(
        self, subscription: str, kind: Literal["paused", "disabled"], cause: str, now_ms: int
    ) -> None:
        """Store that a subscription is paused or disabled, across restarts. A disabled one that is paused stays
        disabled.
        """

    async def allow(self, subscription: str) -> None:
        """Delete the halt of a subscription."""


class Commands(Protocol):
    """Commands of the API to workers."""

    async def ask(self, command: kept.Command) -> int:
        """Store a command for the worker of its subscription, and return its id."""

    async def take(self, subscriptions: Collection[str], now_ms: int) -> list[kept.Command]:
        """Return commands for these subscriptions, except retries. Each command is given to one worker only."""

    async def retries(self, subscriptions: Collection[str], now_ms: int) -> list[kept.Command]:
        """Return the valid commands ``retry`` for these subscriptions. Every worker gets each of them, because
        each delivers some of the keys.
        """

    async def add_result(self, command: int, result: RetryResult) -> None:
        """Add the result of a worker to the answer to a command ``retry``."""

    async def answer(self, command: int, answer: bytes) -> None:
        """Store the worker's answer to a command, by the id of the command."""

    async def get(self, command: int) -> kept.Command | None:
        """Return one command, or None."""


class Consents(Protocol):
    """Callback addresses that webhooks may call later to consent to deliveries. Each address has a key, of which a
    digest is stored.

    Any gateway may receive the call; the process that asked the webhook learns of it here.
    """

    async def open(self, digest: bytes, subscription: str, *, until_ms: int, now_ms: int) -> None:
        """Store an address that is open until ``until_ms``, until it is closed, or until its first call. A repeated
        write has no effect."""

    async def call(self, digest: bytes, rate: str | None, now_ms: int) -> bool:
        """Store the consent of a webhook with its raw ``WebHook-Allowed-Rate``. Returns False if no such address
        is open.
        """

    async def take(self, digests: Collection[bytes]) -> Mapping[bytes, str | None]:
        """Return the rates that webhooks gave when they called these addresses. Each consent is returned once."""

    async def close(self, digest: bytes) -> Mapping[bytes, str | None]:
        """Close an address, and return its rate if it was called and not taken yet."""


class Replays(Protocol):
    """Ranges of partitions that are delivered again."""

    async def ask(self, replays: Sequence[kept.Replay]) -> list[int]:
        """Store the replays of one subscription, and return their ids. Return an empty list, and store nothing,
        while the subscription has other replays."""

    async def all(self, subscription: str | None = None) -> list[kept.Replay]:
        """Return all replays, or those of one subscription."""

    async def save(self, replay: kept.Replay, epoch: int) -> None:
        """Store ``next`` and ``done`` of a replay. Raises StaleOwner if the partition has a newer owner."""

    async def end(self, replay: int) -> None:
        """Delete a replay."""


class PullQueue(Protocol):
    """Messages of pull queues. Of the messages with one key, only the oldest can be received, and then none until
    it is finished. An expired lock makes a message free again."""

    async def offer(self, rows: Sequence[kept.PullMessage]) -> None:
        """Store all messages or none. A message that is already stored stays unchanged. Raises StaleOwner or
        StoreFull."""

    async def receive(
        self,
        subscription: str,
        *,
        most: int,
        most_bytes: int,
        lock_ms: int,
        now_ms: int,
        consumer: str = "",
    ) -> list[kept.PullMessage]:
        """Lock and return the oldest free messages, each with a lock token of its own.

        The message with which bodies and headers exceed ``most_bytes`` is the last one.
        """

    async def at(
        self, subscription: str, broker: str, partition: Partition, position: str
    ) -> kept.PullMessage | None:
        """Return the row of one message by its position, or None."""

    async def named(self, event_id: str, most: int) -> list[kept.PullMessage]:
        """Return the rows with this event id among the newest ``most`` rows."""

    async def locked(
        self, subscription: str, tokens: Sequence[str], now_ms: int
    ) -> list[kept.PullMessage]:
        """Return the rows whose lock tokens are valid."""

    async def acknowledge(
        self, subscription: str, tokens: Sequence[str], now_ms: int
    ) -> Mapping[str, bool]:
        """Delete the rows of these tokens. Each token maps to False if its lock expired or it does not exist."""

    async def release(
        self, subscription: str, tokens: Sequence[str], *, delay_ms: int, now_ms: int
    ) -> Mapping[str, bool]:
        """Unlock the rows of these tokens. The messages can be received again after ``delay_ms``. Each token maps
        to False if it is not valid."""

    async def renew(
        self, subscription: str, tokens: Sequence[str], *, lock_ms: int, now_ms: int
    ) -> Mapping[str, bool]:
        """Extend the locks of these tokens. Each token maps to False if it is not valid."""

    async def bury(self, letters: Mapping[str, kept.DeadLetter], now_ms: int) -> Mapping[str, bool]:
        """Move the rows of these tokens to dead letters in one transaction. Each token maps to False if it is
        not valid.
        """

    async def worn_out(
        self, subscription: str, *, most_deliveries: int, now_ms: int
    ) -> list[kept.PullMessage]:
        """Lock and return free rows with at least ``most_deliveries`` deliveries, for the caller to make dead
        letters of.
        """

    async def count(self, subscription: str) -> int:
        """Return the number of messages in the queue, locked or not."""

    async def count_all(self) -> Mapping[str, kept.QueueCount]:
        """Return the number of messages in each queue that has some, locked or not, by subscription."""


class OffsetStore(Protocol):
    """Committed positions of groups, for logs that store none (streams of RabbitMQ).

    Every write is durable when it returns, and is refused under the epoch of an earlier owner.
    """

    async def offsets(
        self, broker: str, group: str, partitions: Collection[Partition]
    ) -> Mapping[Partition, kept.Commit]:
        """Return the committed positions of a group."""

    async def start_offsets(
        self, broker: str, group: str, commits: Mapping[Partition, kept.Commit]
    ) -> None:
        """Store the first position of a group in partitions without a committed one."""

    async def own_offsets(
        self, broker: str, group: str, epoch: int, partitions: Collection[Partition]
    ) -> Mapping[Partition, kept.Commit]:
        """Record this epoch as the owner of the partitions, and return their committed positions."""

    async def save_offsets(
        self, broker: str, group: str, epoch: int, commits: Mapping[Partition, kept.Commit]
    ) -> None:
        """Store committed positions. Raises StaleOwner if some partitions have another owner; the positions of all
        other partitions are stored."""


class ProgressStore(Protocol):
    """Positions of subscriptions that share the membership of one group, and the floor of each partition.

    ``group`` is the group that the subscription would have alone. Every write is durable when it returns.
    """

    async def begin(
        self,
        broker: str,
        shared: str,
        starts: Mapping[str, Mapping[Partition, kept.Commit]],
    ) -> None:
        """Store the first positions of groups, apart from the floor. Existing positions stay unchanged."""

    async def find(
        self, broker: str, groups: Collection[str]
    ) -> Mapping[str, Mapping[Partition, kept.Progress]]:
        """Return the positions of these groups. Groups that share no membership are left out."""

    async def own(
        self,
        broker: str,
        shared: str,
        epoch: int,
        partitions: Collection[Partition],
        *,
        newest: bool = False,
    ) -> tuple[Mapping[Partition, int], Mapping[Partition, Mapping[str, kept.Progress]]]:
        """Record this epoch as the owner of the partitions. Return their floors, and all positions in them by group.

        With ``newest``, raises StaleOwner if a greater epoch is recorded.
        """

    async def save(
        self,
        broker: str,
        shared: str,
        epoch: int,
        floors: Mapping[Partition, int],
        changed: Mapping[Partition, Mapping[str, kept.Progress]],
    ) -> Collection[tuple[str, Partition]]:
        """Store floors and positions in one transaction. Return the positions that do not exist any more.

        ``floors`` must name every partition of ``changed``. Raises StaleOwner, and stores nothing, if another epoch
        owns one of them.
        """

    async def remove(self, broker: str, groups: Collection[str]) -> None:
        """Delete all positions of these groups."""


class Store(Protocol):
    """All protocols of the store, in one database.

    Attributes:
        clock: The time of day by which all processes of the store write its times and compare them with the present.
    """

    clock: Clock
    owners: Owners
    letters: DeadLetters
    parked: ParkedMessages
    attempts: Attempts
    subscriptions: SubscriptionRegistry
    halts: Halts
    commands: Commands
    consents: Consents
    replays: Replays
    pulled: PullQueue
    offsets: OffsetStore
    progress: ProgressStore
    audit: AuditTrail
    alerts: AlertStore

    async def start(self) -> None:
        """Open the database of the store."""

    async def stop(self) -> None:
        """Close the database of the store."""

    async def health(self) -> LogHealth:
        """Return the health of the store's database."""
