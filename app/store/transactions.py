"""Run the store's work on a thread of its own, so that a slow disk never blocks the event loop.

Writes that arrive during a transaction share the next one (``together``), so that many failing events cost one disk
sync per group."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from app.errors import StoreFull, StoreUnavailable
from app.telemetry import Histogram

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")
Work = Callable[[Connection], Any]
WorkResult = Any  # the result of a work, or its Exception

TIMEOUT = 5.0  # seconds; the result of a longer write is unknown, so every write may be repeated
TRIES = 4  # tries of a transaction that conflicts with another process
MOST_IN_GROUP = 256  # works that share a transaction, because the last one waits for all

_CONFLICTS = {"40001", "40P01"}  # PostgreSQL: serialization failure, deadlock
_DISK_FULL = "53100"
_log = logging.getLogger("skybridge.store")


class Transactions:
    """Runs transactions on a thread, one after the other.

    ``trouble`` is why the last group of writes failed, or "".

    Args:
        open_engine: opens the database, on the thread.
        name: the database in messages, without its password.
        timeout: seconds for one transaction.
        took: counts the seconds of each operation, with the wait for its turn.
    """

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
        self._took = Histogram() if took is None else took  # seconds by operation
        self._thread: ThreadPoolExecutor | None = None
        self._engine: Engine | None = None
        self._pending: list[tuple[Work, asyncio.Future[Any]]] = []
        self._writer: asyncio.Task[None] | None = None
        self.trouble = ""

    async def start(self) -> None:
        """Open the database. Raise SetupError if it cannot be used."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        loop = asyncio.get_running_loop()
        self._engine = await loop.run_in_executor(self._thread, self._open_engine)

    async def stop(self) -> None:
        """Finish the pending writes, then close."""
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
        """Run ``work`` in a transaction, which is durable when this returns.

        Raises:
            StoreUnavailable: the transaction failed or exceeded the time-out. After a time-out it may still have
                succeeded.
        """
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
        except TimeoutError:  # a job that has not begun is cancelled
            raise StoreUnavailable(f"{self._name}: no answer in {self._timeout:g} s") from None
        except SQLAlchemyError as error:
            if _will_fail_again(error):
                raise
            raise _as_store_error(self._name, error) from error

    async def together(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run ``work`` as ``run`` does, in one transaction with other waiting works.

        Each work has a result of its own. An error of one does not undo the others."""
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
        """Record the duration of an operation, also of a failed one. Operations are the functions of this package."""
        concern = work.__module__.rpartition(".")[2]
        self._took[f"{concern}-{work.__name__.strip('_')}",].add(perf_counter() - begun)

    async def _write_pending(self) -> None:
        while self._pending:
            group = self._pending[:MOST_IN_GROUP]
            del self._pending[: len(group)]
            fates: Sequence[WorkResult]
            try:
                fates = await self._run(_each, [work for work, _ in group])
            except Exception as error:  # noqa: BLE001 - becomes the result of every work
                of_store = len(group) > 1 or isinstance(error, StoreUnavailable)
                self.trouble = str(error) if of_store else ""
                fates = [error] * len(group)
            else:
                self.trouble = ""
            for (_, done), fate in zip(group, fates, strict=True):
                _resolve(done, fate)


def _resolve(done: asyncio.Future[Any], fate: WorkResult) -> None:
    if done.done():  # its caller was cancelled
        return
    if isinstance(fate, Exception):
        done.set_exception(fate)
    else:
        done.set_result(fate)


class Gathered(Generic[Item, T]):
    """Answers the calls that wait with one work, because thousands of dispatchers ask the same when they start.

    While the event loop is busy, each statement of the store's thread waits some ms for the interpreter. So a statement
    for each caller would exceed the time-out.

    Args:
        transactions: runs the work.
        work: returns one result for each item, in order. An exception is raised to the caller of its item.
    """

    def __init__(
        self,
        transactions: Transactions,
        work: Callable[[Connection, Sequence[Item]], Sequence[T | Exception]],
    ) -> None:
        self._transactions = transactions
        self._work = work
        self._waiting: list[tuple[Item, asyncio.Future[T]]] = []
        self._task: asyncio.Task[None] | None = None

    async def ask(self, item: Item) -> T:
        """Return the result of one item. Raises StoreUnavailable."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._answer_all(), name="store reads")
        return await done

    async def _answer_all(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)  # more callers may come in this step
            some = self._waiting[:MOST_IN_GROUP]
            del self._waiting[: len(some)]
            results: Sequence[T | Exception]
            try:
                items = [item for item, _ in some]
                results = await self._transactions.together(self._work, items)
            except Exception as error:  # noqa: BLE001 - becomes the result of every call
                results = [error] * len(some)
            for (_, done), result in zip(some, results, strict=True):
                _resolve(done, result)


class StorePart:
    """Base class of the parts of a store. Its methods are transactions, which run on the store's thread."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions


S = TypeVar("S", bound=StorePart)


def transaction(
    work: Callable[Concatenate[S, Connection, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Turn a function of a connection into a method that runs as a transaction (``Transactions.run``)."""

    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._transactions.run(work.__get__(self), *args, **kwargs)

    return run


def shared_transaction(
    work: Callable[Concatenate[S, Connection, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Turn a function of a connection into a method that shares a transaction (``Transactions.together``)."""

    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._transactions.together(work.__get__(self), *args, **kwargs)

    return run


def _transaction(engine: Engine, work: Callable[[Connection], T]) -> T:
    """Run a work in a transaction, and repeat it after a conflict with another process (PostgreSQL: a deadlock)."""
    for _ in range(TRIES - 1):
        try:
            with engine.begin() as connection:
                return work(connection)
        except SQLAlchemyError as error:
            if not _is_conflict(error):
                raise
            _log.debug("a transaction is repeated: %s", error)
    with engine.begin() as connection:
        return work(connection)


def _each(connection: Connection, works: Sequence[Work]) -> list[WorkResult]:
    if len(works) == 1:  # an error undoes the transaction, which no other work shares
        return [work(connection) for work in works]
    fates: list[WorkResult] = []
    for work in works:
        try:
            with connection.begin_nested():
                fates.append(work(connection))
        except SQLAlchemyError as error:
            if not _will_fail_again(error):
                raise  # the transaction as a whole has failed
            fates.append(error)
        except Exception as error:  # noqa: BLE001 - becomes the result of this work
            fates.append(error)
    return fates


def _as_store_error(name: str, error: SQLAlchemyError) -> StoreUnavailable:
    """Return the error of the database as StoreUnavailable. For a full disk, return StoreFull."""
    cause: object = error
    if isinstance(error, DBAPIError):
        cause = " ".join(str(error.orig).split())
    kind = StoreFull if _disk_is_full(error) else StoreUnavailable
    return kind(f"{name}: {cause}")


def _is_conflict(error: SQLAlchemyError) -> bool:
    """Return True if the same transaction will succeed when repeated."""
    return _state(error) in _CONFLICTS


def _will_fail_again(error: SQLAlchemyError) -> bool:
    """Return True if the database rejects the rows themselves. That is a bug, and a retry would fail again."""
    return isinstance(error, DataError | IntegrityError)


def _disk_is_full(error: SQLAlchemyError) -> bool:
    original = getattr(error, "orig", None)
    code = getattr(original, "sqlite_errorcode", None)
    return code == sqlite3.SQLITE_FULL or _state(error) == _DISK_FULL


def _state(error: SQLAlchemyError) -> str | None:
    return getattr(getattr(error, "orig", None), "sqlstate", None)
