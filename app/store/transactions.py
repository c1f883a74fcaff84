"""Runs the store's work on a thread of its own, so that a slow disk never stops the event loop.

Writes that arrive while a transaction is being synced share the next one (``together``): a target
that refuses everything costs a sync a group, not a sync an event.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from app.errors import StoreFull, StoreUnavailable
from app.telemetry import Histogram

P = ParamSpec("P")
T = TypeVar("T")
Work = Callable[[Connection], Any]
Fate = Any  # what a work returned, or the Exception it raised

TIMEOUT = 5.0  # seconds; a write that takes longer is unknown, and every write may be repeated
TRIES = 4  # of a transaction that met another process's
MOST_IN_GROUP = 256  # works that share a transaction: the last of them waits for all

_MET_ANOTHER = {"40001", "40P01"}  # PostgreSQL: serialization failure, deadlock
_DISK_FULL = "53100"
_log = logging.getLogger("skybridge.store")


class Transactions:
    """``open_engine`` runs on the thread, which alone uses what it opens. ``name`` of the database, for
    a person: without its password."""

    def __init__(
        self,
        open_engine: Callable[[], Engine],
        name: str,
        timeout: float,
        took: Histogram | None = None,
    ) -> None:
        self._open_engine = open_engine
        self._name = name
        self._timeout = timeout
        self._took = (
            Histogram() if took is None else took
        )  # by operation: the wait for its turn is part of it
        self._thread: ThreadPoolExecutor | None = None
        self._engine: Engine | None = None
        self._pending: list[tuple[Work, asyncio.Future[Any]]] = []
        self._writer: asyncio.Task[None] | None = None
        self.trouble = ""  # of the last group of writes; empty when it went well

    async def start(self) -> None:
        """Raises SetupError for a database that cannot be used."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        loop = asyncio.get_running_loop()
        self._engine = await loop.run_in_executor(self._thread, self._open_engine)

    async def stop(self) -> None:
        """Finish what was asked for, then close."""
        if self._writer is not None:
            await self._writer
        engine, self._engine = self._engine, None
        if engine is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, engine.dispose)
        if self._thread is not None:
            self._thread.shutdown(wait=False)

    async def run(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """One transaction; committed and synced when this returns. StoreUnavailable when it was not,
        or not within the time-out: then it may have been all the same."""
        begun = perf_counter()
        try:
            return await self._run(work, *args, **kwargs)
        finally:
            self._note(work, begun)

    async def _run(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        engine, thread = self._engine, self._thread
        if engine is None or thread is None:
            raise StoreUnavailable("the store is not open")
        job = thread.submit(_transaction, engine, lambda at: work(at, *args, **kwargs))
        try:
            async with asyncio.timeout(self._timeout):  # wait_for of 3.11 loses cancellations
                return await asyncio.wrap_future(job)
        except TimeoutError:  # the job is cancelled where it has not begun
            raise StoreUnavailable(f"{self._name}: no answer in {self._timeout:g} s") from None
        except SQLAlchemyError as error:
            if _will_fail_again(error):
                raise
            raise _said(self._name, error) from error

    async def together(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """As ``run``, in one transaction with whatever else waits for one. Each work has a fate of its
        own: what one raises undoes nothing of the others."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._pending.append((lambda at: work(at, *args, **kwargs), done))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_pending(), name="store writes")
        begun = perf_counter()
        try:
            return await done
        finally:
            self._note(work, begun)

    def _note(self, work: Callable[..., Any], begun: float) -> None:
        """Also of what failed: a store that does not answer is a slow one. The functions of this package
        are the operations, so they are few."""
        concern = work.__module__.rpartition(".")[2]
        self._took[f"{concern}-{work.__name__.strip('_')}",].add(perf_counter() - begun)

    async def _write_pending(self) -> None:
        while self._pending:
            group = self._pending[:MOST_IN_GROUP]
            del self._pending[: len(group)]
            fates: Sequence[Fate]
            try:
                fates = await self._run(_each, [work for work, _ in group])
            except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for an answer
                of_store = len(group) > 1 or isinstance(error, StoreUnavailable)
                self.trouble = str(error) if of_store else ""
                fates = [error] * len(group)
            else:
                self.trouble = ""
            for (_, done), fate in zip(group, fates, strict=True):
                self._tell(done, fate)

    def _tell(self, done: asyncio.Future[Any], fate: Fate) -> None:
        if done.done():  # its caller was cancelled
            return
        if isinstance(fate, Exception):
            done.set_exception(fate)
        else:
            done.set_result(fate)


class Storing:
    """What the parts of a store have in common. Their methods are transactions: written as functions of
    a connection, and run on the store's thread."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions


S = TypeVar("S", bound=Storing)


def transaction(
    work: Callable[Concatenate[S, Connection, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """See ``Transactions.run``."""

    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._transactions.run(work.__get__(self), *args, **kwargs)

    return run


def shared_transaction(
    work: Callable[Concatenate[S, Connection, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """See ``Transactions.together``."""

    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._transactions.together(work.__get__(self), *args, **kwargs)

    return run


def _transaction(engine: Engine, work: Callable[[Connection], T]) -> T:
    """Begun again where the database gave it up for another process's (PostgreSQL: a deadlock)."""
    for _ in range(TRIES - 1):
        try:
            with engine.begin() as connection:
                return work(connection)
        except SQLAlchemyError as error:
            if not _met_another(error):
                raise
            _log.debug("a transaction is repeated: %s", error)
    with engine.begin() as connection:
        return work(connection)


def _each(connection: Connection, works: Sequence[Work]) -> list[Fate]:
    if len(works) == 1:  # what it raises undoes the whole transaction, and nobody else's
        return [work(connection) for work in works]
    fates: list[Fate] = []
    for work in works:
        try:
            with connection.begin_nested():
                fates.append(work(connection))
        except SQLAlchemyError as error:
            if not _will_fail_again(error):
                raise  # not about the rows of this one work
            fates.append(error)
        except Exception as error:  # noqa: BLE001 - the fate of this one work
            fates.append(error)
    return fates


def _said(name: str, error: SQLAlchemyError) -> StoreUnavailable:
    """StoreFull for a full disk, which is a full bound (rule 8)."""
    cause: object = error
    if isinstance(error, DBAPIError):
        cause = " ".join(str(error.orig).split())
    kind = StoreFull if _disk_is_full(error) else StoreUnavailable
    return kind(f"{name}: {cause}")


def _met_another(error: SQLAlchemyError) -> bool:
    """Nothing is wrong with it: begun again, the same transaction succeeds."""
    return _state(error) in _MET_ANOTHER


def _will_fail_again(error: SQLAlchemyError) -> bool:
    """The rows themselves are at fault: a bug of ours, and no time will mend it."""
    return isinstance(error, DataError | IntegrityError)


def _disk_is_full(error: SQLAlchemyError) -> bool:
    original = getattr(error, "orig", None)
    code = getattr(original, "sqlite_errorcode", None)
    return code == sqlite3.SQLITE_FULL or _state(error) == _DISK_FULL


def _state(error: SQLAlchemyError) -> str | None:
    return getattr(getattr(error, "orig", None), "sqlstate", None)
