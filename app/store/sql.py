"""The store: one database, one class per concern, one thread."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from app import interfaces
from app.errors import StoreUnavailable
from app.interfaces import Clock
from app.interfaces.clock import SYSTEM_CLOCK, ServerClock
from app.model.metadata import LogHealth
from app.store import revision, sqlite
from app.store.alerts import Alerts
from app.store.attempts import Attempts
from app.store.audit import Audit, AuditBounds
from app.store.commands import Commands
from app.store.consents import Consents
from app.store.dead_letters import DeadLetters
from app.store.files import SoleUse
from app.store.halts import Halts
from app.store.owners import Owners
from app.store.parked import ParkedMessages
from app.store.progress import SharedProgress
from app.store.pulled import PullQueue
from app.store.replays import Replays
from app.store.stream_offsets import StreamOffsets
from app.store.subscriptions import SubscriptionRegistry
from app.store.transactions import TIMEOUT, Transactions
from app.telemetry import Histogram

MAX_LETTERS = 1_000_000
AUDITED = AuditBounds()


def open_store(
    path: Path,
    *,
    timeout: float = TIMEOUT,
    max_letters: int = MAX_LETTERS,
    audited: AuditBounds = AUDITED,
    alone: bool = False,
    took: Histogram | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> SqlStore:
    """Return the store in an SQLite file. The file is opened by ``start``.

    Args:
        path: the file.
        timeout: seconds for one transaction.
        max_letters: the bound on dead letters.
        audited: the bounds on audit entries.
        alone: whether no other process may open the store alone as well.
        took: counts the seconds of each operation.
        clock: the clock of this machine, which is that of the store too.
    """
    sole_use = SoleUse(path) if alone else None
    engine = partial(sqlite.open_engine, path, sole_use)
    transactions = Transactions(engine, str(path), timeout, took)
    return SqlStore(transactions, clock, max_letters, audited, sole_use)


def open_shared_store(
    dsn: str,
    *,
    timeout: float = TIMEOUT,
    max_letters: int = MAX_LETTERS,
    audited: AuditBounds = AUDITED,
    took: Histogram | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> SqlStore:
    """Return the store in a PostgreSQL database, for any number of processes.

    Args:
        dsn: the address of the database, as libpq reads it: a URI or ``name=value``.
        timeout: seconds for one transaction.
        max_letters: the bound on dead letters.
        audited: the bounds on audit entries.
        took: counts the seconds of each operation.
        clock: the clock of this machine. The clock of the store has the time of day of the server.

    Raises:
        SetupError: the DSN is not valid.
    """
    from app.store import postgresql  # noqa: PLC0415 - its client is heavy, and few need it

    name, shared = postgresql.name_of(dsn), ServerClock(clock, "the store's server")
    engine = partial(postgresql.open_engine, dsn, timeout, shared)
    return SqlStore(Transactions(engine, name, timeout, took), shared, max_letters, audited)


class SqlStore:
    """Implements ``interfaces.Store`` on one SQL database."""

    def __init__(
        self,
        transactions: Transactions,
        clock: Clock,
        max_letters: int = MAX_LETTERS,
        audited: AuditBounds = AUDITED,
        sole_use: SoleUse | None = None,
    ) -> None:
        self._transactions = transactions
        self._sole_use = sole_use
        self._letters = DeadLetters(transactions, max_letters)
        self.clock: Clock = clock
        self.owners: interfaces.Owners = Owners(transactions)
        self.letters: interfaces.DeadLetters = self._letters
        self.parked: interfaces.ParkedMessages = ParkedMessages(transactions)
        self.attempts: interfaces.Attempts = Attempts(transactions)
        self.subscriptions: interfaces.SubscriptionRegistry = SubscriptionRegistry(transactions)
        self.halts: interfaces.Halts = Halts(transactions)
        self.commands: interfaces.Commands = Commands(transactions)
        self.consents: interfaces.Consents = Consents(transactions)
        self.replays: interfaces.Replays = Replays(transactions)
        self.pulled: interfaces.PullQueue = PullQueue(transactions, self._letters)
        self.offsets: interfaces.OffsetStore = StreamOffsets(transactions)
        self.progress: interfaces.ProgressStore = SharedProgress(transactions)
        self.audit: interfaces.AuditTrail = Audit(transactions, audited)
        self.alerts: interfaces.AlertStore = Alerts(transactions)

    async def start(self) -> None:
        """Open or create the database. Raise SetupError if it cannot be used."""
        await self._transactions.start()

    async def stop(self) -> None:
        """Finish the pending writes, then close."""
        await self._transactions.stop()
        if self._sole_use is not None:
            self._sole_use.release()

    async def health(self) -> LogHealth:
        try:
            await self._transactions.run(revision.read)
        except StoreUnavailable as error:
            return LogHealth(healthy=False, cause=str(error))
        cause = self._transactions.trouble or self._letters.full
        return LogHealth(healthy=not cause, cause=cause)
