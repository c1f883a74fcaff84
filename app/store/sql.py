"""The store: SQL on a thread of its own, so that a slow disk never stops the event loop.

Dead letters that arrive while one transaction is being synced share the next one: a target that
refuses everything costs a sync a group, not a sync an event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, delete, select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import SQLAlchemyError

from app.errors import SkybridgeError, StaleOwner, StoreUnavailable
from app.interfaces import DeadLetter
from app.model.message import Partition
from app.model.metadata import Health
from app.store import letters, owners
from app.store.engine import open_engine
from app.store.tables import disabled_subscriptions

P = ParamSpec("P")
T = TypeVar("T")
Pending = tuple[DeadLetter, asyncio.Future[None]]

TIMEOUT = 5.0  # seconds; a write that takes longer is unknown, and every write may be repeated


def open_store(path: Path, *, timeout: float = TIMEOUT) -> SqlStore:
    """The store in the SQLite file ``path``; nothing is opened before ``start``."""
    return SqlStore(path, timeout=timeout)


class SqlStore:
    """Fills ``interfaces.Store``. For one process: SQLite has one writer."""

    def __init__(self, path: Path, *, timeout: float = TIMEOUT) -> None:
        self._path = path
        self._timeout = timeout
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._engine: Engine | None = None
        self._pending: list[Pending] = []
        self._writer: asyncio.Task[None] | None = None
        self._trouble = ""

    async def start(self) -> None:
        """Open or make the file. Raises SetupError for one that cannot be used."""
        loop = asyncio.get_running_loop()
        self._engine = await loop.run_in_executor(self._thread, open_engine, self._path)

    async def stop(self) -> None:
        """Finish what was asked for, then close."""
        if self._writer is not None:
            await self._writer
        if self._engine is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, self._engine.dispose)
            self._engine = None
        self._thread.shutdown(wait=False)

    async def add_dead_letter(self, letter: DeadLetter) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append((letter, done))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_pending(), name="store letters")
        await done

    async def dead_letters(
        self, subscription: str | None = None, limit: int = 100
    ) -> list[DeadLetter]:
        """The newest first."""
        return await self._call(letters.newest, subscription, limit)

    async def count_dead_letters(self) -> Mapping[tuple[str, str], int]:
        return await self._call(letters.counts)

    async def own(
        self, subscription: str, broker: str, partitions: Collection[Partition], epoch: int
    ) -> None:
        await self._call(owners.own, subscription, broker, tuple(partitions), epoch)

    async def set_disabled(self, subscription: str, cause: str) -> None:
        await self._call(_disable, subscription, cause)

    async def disabled(self) -> Mapping[str, str]:
        return await self._call(_disabled)

    async def enable(self, subscription: str) -> None:
        await self._call(_enable, subscription)

    async def health(self) -> Health:
        try:
            await self._call(_disabled)
        except StoreUnavailable as error:
            return Health(healthy=False, cause=str(error))
        return Health(healthy=not self._trouble, cause=self._trouble)

    async def _write_pending(self) -> None:
        while self._pending:
            group, self._pending = self._pending, []
            fates: Sequence[Exception | None]
            try:
                fates = await self._call(_add_all, [letter for letter, _ in group])
            except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for an answer
                self._trouble = str(error)
                fates = [error] * len(group)
            else:
                self._trouble = ""
            for (_, done), fate in zip(group, fates, strict=True):
                _resolve(done, fate)

    async def _call(
        self,
        work: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """One transaction on the store's thread; committed and synced when this returns."""
        engine = self._engine
        if engine is None:
            raise StoreUnavailable("the store is not open")

        def transaction() -> T:
            with engine.begin() as connection:
                return work(connection, *args, **kwargs)

        running = asyncio.get_running_loop().run_in_executor(self._thread, transaction)
        try:
            return await asyncio.wait_for(asyncio.shield(running), self._timeout)
        except TimeoutError:
            running.add_done_callback(_forget)
            raise StoreUnavailable(f"{self._path}: no answer in {self._timeout:g} s") from None
        except SQLAlchemyError as error:
            raise StoreUnavailable(f"{self._path}: {error}") from error


def _add_all(connection: Connection, group: Collection[DeadLetter]) -> list[SkybridgeError | None]:
    fates: list[SkybridgeError | None] = []
    for letter in group:
        try:
            owners.check(connection, letter)
        except StaleOwner as stale:
            fates.append(stale)
        else:
            letters.add(connection, letter)
            fates.append(None)
    return fates


def _resolve(done: asyncio.Future[None], fate: Exception | None) -> None:
    if done.done():  # its caller was cancelled
        return
    if fate is None:
        done.set_result(None)
    else:
        done.set_exception(fate)


def _forget(running: asyncio.Future[T]) -> None:
    if not running.cancelled():
        running.exception()


def _disable(connection: Connection, subscription: str, cause: str) -> None:
    row = {"subscription": subscription, "cause": cause}
    connection.execute(
        insert(disabled_subscriptions)
        .values(row)
        .on_conflict_do_update(index_elements=["subscription"], set_={"cause": cause})
    )


def _disabled(connection: Connection) -> dict[str, str]:
    columns = disabled_subscriptions.c
    rows = connection.execute(select(columns.subscription, columns.cause))
    return {subscription: cause for subscription, cause in rows}  # noqa: C416 - rows are not tuples


def _enable(connection: Connection, subscription: str) -> None:
    columns = disabled_subscriptions.c
    connection.execute(delete(disabled_subscriptions).where(columns.subscription == subscription))
