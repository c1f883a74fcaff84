"""The writer thread of the log.

While a commit group is written to the disk, the next group collects appends. That group is closed after the event
loop has delivered the results of the written group. No timer is used: waiting for more appends made the log slower.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw

from app.errors import BrokerUnavailable
from app.log.append_results import AppendProcessor
from app.log.commit import AppendRequest, Fates, Piggyback, StagedRecords
from app.log.known import LogState
from app.log.loop_handoff import LoopHandoff
from app.log.settings import EngineSettings

T = TypeVar("T")
Job = Callable[[apsw.Connection], Any]

IDLE = 0.2  # seconds without work before the write-ahead log is folded back into the file
MOST_RECORDS = 4_096  # approximate records of one commit group, which bounds the wait for one fsync


class Writer:
    """The writer thread. ``append``, ``run`` and ``piggyback`` are called on the event loop; all else runs in the
    thread.

    Args:
        settings: the settings of the log.
        known: the state in memory.
        on_stored: is called on the event loop with the results and growth of a commit group.
        on_round: is called on the event loop before a commit group is closed, so that other writes can join it.
    """

    def __init__(
        self,
        settings: EngineSettings,
        known: LogState,
        on_stored: Callable[[Fates, list[StagedRecords]], None],
        on_round: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._on_stored = on_stored
        self._on_round = on_round
        self._loop = asyncio.get_running_loop()
        self._handoff = LoopHandoff(self._loop)
        self._appends: deque[AppendRequest] = deque()
        self._jobs: deque[tuple[Job, asyncio.Future[Any]]] = deque()
        self._piggybacks: deque[tuple[Piggyback, asyncio.Future[None]]] = deque()
        self._tokens: SimpleQueue[None] = SimpleQueue()
        self._idle = True  # the thread waits, and no round is scheduled
        self._stopping = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.storing = AppendProcessor(settings, known)
        self._db: apsw.Connection

    # on the event loop

    def start(self, opening: Callable[[], apsw.Connection]) -> asyncio.Future[None]:
        """Start the thread. The future is done when the file is open, or has the error of opening it."""
        opened: asyncio.Future[None] = self._loop.create_future()
        name = f"log-writer-{self._settings.name}"
        threading.Thread(target=self._main, args=(opening, opened), name=name, daemon=True).start()
        return opened

    def append(self, append: AppendRequest) -> None:
        self._appends.append(append)
        if self._idle:
            self._wake()

    def run(self, job: Callable[[apsw.Connection], T]) -> asyncio.Future[T]:
        """Run ``job`` in the thread between commit groups, with a transaction of its own.

        Returns:
            A future of its result, or of a BrokerError if the file failed.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.append((job, future))
        if self._idle:
            self._wake()
        return future

    def piggyback(
        self, store: Callable[[apsw.Connection], Callable[[], None]]
    ) -> asyncio.Future[None]:
        """Run ``store`` in the transaction of the next commit group, or in its own if none is due.

        Returns:
            A future that is done when the writes are durable and the returned function was called, or has a
                BrokerError.
        """
        future: asyncio.Future[None] = self._loop.create_future()
        self._piggybacks.append((Piggyback(store), future))
        if self._idle:
            self._wake()
        return future

    async def stop(self) -> None:
        """Store everything that was accepted, and end the thread."""
        self._stopping = True
        self._tokens.put(None)
        await self._ended

    def _wake(self) -> None:
        """Schedule a round after this turn of the event loop, so that other appends join it."""
        self._idle = False
        self._loop.call_soon(self._begin_round)

    def _begin_round(self) -> None:
        try:
            if self._appends:
                self._on_round()
        finally:
            self._tokens.put(None)

    def _round_done(self, fates: Fates, grown: list[StagedRecords]) -> None:
        """Deliver the results before the next round begins.

        If the thread went on by itself, it would commit a few appends at a time while the event loop waits for the
        interpreter lock."""
        if fates:
            self._on_stored(fates, grown)
        if self._waiting:
            self._wake()
        else:
            self._idle = True

    @property
    def _waiting(self) -> bool:
        return bool(self._appends or self._jobs or self._piggybacks)

    # in the thread

    def _main(self, opening: Callable[[], apsw.Connection], opened: asyncio.Future[None]) -> None:
        try:
            self._db = opening()
            self.storing.open(self._db)
        except BaseException as error:  # noqa: BLE001 - handed to the task that awaits the start
            self._handoff.refuse(opened, error)
            return
        self._handoff.answer(opened, None)
        try:
            self._serve()
        finally:
            with suppress(apsw.Error):
                self._db.close()
            self._handoff.answer(self._ended, None)

    def _serve(self) -> None:
        while not self._stopping:
            if self._wait_for_work():
                self._work()
        while self._waiting:
            self._work()
        self.storing.close()

    def _wait_for_work(self) -> bool:
        """Wait for work. Checkpoint and return False if none comes for a while."""
        try:
            self._tokens.get(timeout=IDLE if self.storing.has_idle_work else None)
        except Empty:
            self.storing.tidy()
            return False
        return True

    def _work(self) -> None:
        """Run one round: the jobs, piggybacked writes and appends that are queued now.

        The jobs are taken first, so that a job never overtakes a write that was queued before it."""
        jobs = [self._jobs.popleft() for _ in range(len(self._jobs))]
        piggyback, written = self._piggybacks.popleft() if self._piggybacks else (None, None)
        appends = self._take()
        fates, grown = self.storing.store(appends, piggyback) if appends else ([], [])
        if piggyback is not None and written is not None:
            self._do(piggyback, written)
        for job in jobs:
            self._do(*job)
        self._handoff.call(self._round_done, fates, grown)
        self.storing.checkpoint_when_due()

    def _take(self) -> list[AppendRequest]:
        """Return the queued appends in order, up to the bound of a commit group."""
        appends: list[AppendRequest] = []
        records = 0
        for _ in range(len(self._appends)):
            if records >= MOST_RECORDS:
                break
            append = self._appends.popleft()
            appends.append(append)
            records += len(append.records)
        return appends

    def _do(self, job: Job, future: asyncio.Future[Any]) -> None:
        if self.storing.broken:
            self._handoff.refuse(
                future, BrokerUnavailable(self.storing.broken, broker=self._settings.name)
            )
            return
        try:
            result = job(self._db)
        except apsw.Error as error:
            self._handoff.refuse(future, self.storing.as_broker_error(error))
        except Exception as error:  # noqa: BLE001 - handed to the task that awaits the job
            self._handoff.refuse(future, error)
        else:
            self._handoff.answer(future, result)
