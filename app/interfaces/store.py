"""What must outlive a process beside the log: one protocol a concern, all of them on one ``Store``.

Every write is durable when it returns and may be repeated. Times are an argument (``now_ms``), so that
tests can move them. Raises StoreUnavailable when the store does not answer in time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

from app.interfaces import kept
from app.interfaces.audit import AuditTrail
from app.model.message import Partition
from app.model.metadata import Health


class Owners(Protocol):
    """The owner of a partition, for the writes that are fenced by it (rule 5)."""

    async def own(
        self,
        subscription: str,
        broker: str,
        partitions: Collection[Partition],
        epoch: int,
        *,
        newest: bool = False,
    ) -> None:
        """Called on assignment: from now on writes under any other epoch are stale. ``newest``: raises
        StaleOwner where a greater epoch is noted, for logs whose epochs grow; else the last to ask owns."""


class DeadLetters(Protocol):
    async def add(self, letter: kept.DeadLetter, parked: int | None = None) -> None:
        """Unique by (subscription, broker, topic, partition, position): a second write of the same is no
        error and changes nothing. ``parked``: id of the row that it was until now, which goes in the
        same step. A stale epoch raises StaleOwner, a full store StoreFull.
        """

    async def find(
        self, choice: kept.LetterChoice, limit: int = 100, before: int | None = None
    ) -> list[kept.DeadLetter]:
        """The newest first; ``before``: only those with a lower id, for the next page."""

    async def count(self, choice: kept.LetterChoice) -> Mapping[tuple[str, str], int]:
        """(subscription, cause) to count."""

    async def count_over_time(
        self, choice: kept.LetterChoice, every_ms: int
    ) -> Mapping[tuple[int, str], int]:
        """(start of an interval of ``every_ms``, cause) to count, for intervals that have any. They are
        counted from the epoch."""

    async def discard(self, choice: kept.LetterChoice) -> int:
        """How many are gone for good."""

    async def redrive(
        self, choice: kept.LetterChoice, *, rate: float, now_ms: int, limit: int
    ) -> int:
        """The oldest ``limit`` of them become redriven rows, in one step, due one after the other at
        ``rate`` a second (0: at once), behind those already on their way; how many there were. Their
        attempts begin again at 1."""


class ParkedMessages(Protocol):
    async def park(self, rows: Sequence[kept.Parked], *, numbered: bool = False) -> None:
        """All or none. A row that is there already stays as it is. StaleOwner, StoreFull.

        ``numbered``: the log has no lasting places, so the offset of each is the next number of its
        partition, above all that were ever given there."""

    async def lanes(
        self, subscription: str, broker: str, partitions: Collection[Partition]
    ) -> Mapping[Partition, Mapping[bytes, kept.ParkedLane]]:
        """Of those that were parked, not of those redriven."""

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
        """The oldest of a lane whose offset is above ``after`` (-1: any); none that was redriven.
        ``epoch``: of the reader's ownership, which their messages then bear; None: that of the writer."""

    async def redriven(
        self,
        subscription: str,
        broker: str,
        epochs: Mapping[Partition, int],
        *,
        limit: int,
    ) -> list[kept.Parked]:
        """Those of these partitions, also before they are due; the longest due first. A row is left out while an
        earlier letter of its lane is due later. ``epochs``: of the reader's ownership of each, which their
        messages then bear."""

    async def unpark(self, rows: Sequence[kept.Parked]) -> None:
        """They are finished. ``message.epoch`` fences: StaleOwner."""

    async def defer(self, row: kept.Parked) -> None:
        """Its steps, attempts, due time, cause and detail are these now. StaleOwner."""

    async def count(self) -> Mapping[str, kept.ParkedCount]:
        """By subscription, redriven ones included."""

    async def find(
        self,
        subscription: str | None = None,
        limit: int = 100,
        after: int = 0,
        event_id: str | None = None,
    ) -> list[kept.Parked]:
        """In order of id, above ``after``."""

    async def keys(self, subscription: str | None = None, limit: int = 100) -> list[kept.ParkedKey]:
        """Return the keys whose oldest row was written first; redriven rows included. The oldest row of each has no
        body: a thousand may have a MiB each."""


class Attempts(Protocol):
    async def add(
        self, attempts: Sequence[kept.Attempt], latest: Sequence[kept.Attempt] = ()
    ) -> None:
        """``latest``: successes, each in the place of whatever success its subscription had."""

    async def find(self, choice: kept.AttemptChoice, limit: int = 100) -> list[kept.Attempt]:
        """The newest first."""

    async def trim(self, *, before_ms: int, most: int) -> int:
        """Rows beyond the retention or the cap go, the oldest first; how many."""


class SubscriptionRegistry(Protocol):
    async def all(self) -> list[kept.StoredSubscription]: ...

    async def get(self, subscription: str) -> kept.StoredSubscription | None: ...

    async def put(
        self, subscription: str, document: bytes, *, expected: int | None, now_ms: int
    ) -> kept.StoredSubscription:
        """``expected``: the version that is replaced, 0 for one that is not there yet, None for
        whichever is. VersionConflict otherwise."""

    async def delete(self, subscription: str, *, expected: int | None) -> bool:
        """False: there was none. Its halt, commands, consents, replays, parked and offered rows go too; dead
        letters stay until somebody discards them."""

    async def clear(self, subscription: str) -> None:
        """The same rows of a subscription that is not there, which its worker wrote until it had ended: one
        that is made later under its id must not inherit them. Nothing of one that is there."""

    async def revision(self) -> int:
        """Grows with every change of a subscription, a halt, a command, a replay or a redrive, and with a
        consent: cheap to ask."""


class Halts(Protocol):
    async def all(self) -> Mapping[str, kept.Halt]: ...

    async def halt(
        self, subscription: str, kind: Literal["paused", "disabled"], cause: str, now_ms: int
    ) -> None:
        """Stays through restarts. A disabled one that is paused stays disabled."""

    async def allow(self, subscription: str) -> None: ...


class Commands(Protocol):
    async def ask(self, command: kept.Command) -> int:
        """Its id."""

    async def take(self, subscriptions: Collection[str], now_ms: int) -> list[kept.Command]:
        """Each is handed to one taker only."""

    async def answer(self, command: int, answer: bytes) -> None: ...

    async def get(self, command: int) -> kept.Command | None: ...


class Consents(Protocol):
    """Addresses at which webhooks may consent later (spec 5.3), each under a digest of its key. Whichever
    gateway is called, the process that asked the webhook learns of it."""

    async def open(self, digest: bytes, subscription: str, *, until_ms: int, now_ms: int) -> None:
        """It ends at ``until_ms``, when it is closed, or with its first call.
        A second write of the same is no error and changes nothing."""

    async def call(self, digest: bytes, rate: str | None, now_ms: int) -> bool:
        """A webhook consents there; ``rate``: its raw ``WebHook-Allowed-Rate``. False: no such address
        is open, and nothing was written."""

    async def take(self, digests: Collection[bytes]) -> Mapping[bytes, str | None]:
        """The rates of those that were called. Each is handed out once."""

    async def close(self, digest: bytes) -> Mapping[bytes, str | None]:
        """As ``take``, of one that ends now."""


class Replays(Protocol):
    async def ask(self, replays: Sequence[kept.Replay]) -> list[int]:
        """Of one subscription. Their ids; none, and nothing kept, while it has others under way."""

    async def all(self, subscription: str | None = None) -> list[kept.Replay]: ...

    async def save(self, replay: kept.Replay, epoch: int) -> None:
        """Its ``next`` and ``done``. StaleOwner when the partition has a newer owner."""

    async def end(self, replay: int) -> None: ...


class PullQueue(Protocol):
    """Messages that wait to be pulled, with Event Grid's words. A lane hands out one at a time, its oldest;
    a lock that ran out is free again."""

    async def offer(self, rows: Sequence[kept.Offered]) -> None:
        """As ``ParkedMessages.park``."""

    async def receive(
        self,
        subscription: str,
        *,
        most: int,
        most_bytes: int,
        lock_ms: int,
        now_ms: int,
        consumer: str = "",
    ) -> list[kept.Offered]:
        """The oldest that are free, each under a token of its own. The one that goes beyond
        ``most_bytes``, of bodies and headers, is the last."""

    async def at(
        self, subscription: str, broker: str, partition: Partition, position: str
    ) -> kept.Offered | None:
        """The row of one message, by an index."""

    async def named(self, event_id: str, most: int) -> list[kept.Offered]:
        """Of an event with this id, among the newest ``most`` rows, which are walked."""

    async def locked(
        self, subscription: str, tokens: Sequence[str], now_ms: int
    ) -> list[kept.Offered]:
        """Those whose token holds."""

    async def acknowledge(
        self, subscription: str, tokens: Sequence[str], now_ms: int
    ) -> Mapping[str, bool]:
        """Finished. False for a token whose lock ran out or that there is none of."""

    async def release(
        self, subscription: str, tokens: Sequence[str], *, delay_ms: int, now_ms: int
    ) -> Mapping[str, bool]:
        """Free again after ``delay_ms``."""

    async def renew(
        self, subscription: str, tokens: Sequence[str], *, lock_ms: int, now_ms: int
    ) -> Mapping[str, bool]: ...

    async def bury(self, letters: Mapping[str, kept.DeadLetter], now_ms: int) -> Mapping[str, bool]:
        """By token: rejected ones become dead letters in one step."""

    async def worn_out(
        self, subscription: str, *, most_deliveries: int, now_ms: int
    ) -> list[kept.Offered]:
        """Free ones that were handed out so often, locked under a token of the caller's to be buried."""

    async def count(self, subscription: str) -> int:
        """How many wait, locked or not."""


class OffsetStore(Protocol):
    """Where groups are in logs that keep no places for them (streams of RabbitMQ). Every write is durable
    when it returns, and fenced by the epoch of the ownership under which it is made (rule 5).
    StoreUnavailable when nothing is known of it.
    """

    async def offsets(
        self, broker: str, group: str, partitions: Collection[Partition]
    ) -> Mapping[Partition, kept.Commit]:
        """Those that the group has."""

    async def start_offsets(
        self, broker: str, group: str, commits: Mapping[Partition, kept.Commit]
    ) -> None:
        """Where the group begins in partitions where it has no place yet; the others stay."""

    async def own_offsets(
        self, broker: str, group: str, epoch: int, partitions: Collection[Partition]
    ) -> Mapping[Partition, kept.Commit]:
        """As ``offsets``, and from now on this epoch owns these, whatever was noted before."""

    async def save_offsets(
        self, broker: str, group: str, epoch: int, commits: Mapping[Partition, kept.Commit]
    ) -> None:
        """StaleOwner when some have another owner: those stay as they are, the others are saved."""


class Store(Protocol):
    """All of it, in one database."""

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
    audit: AuditTrail

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def health(self) -> Health: ...
