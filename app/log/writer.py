"""The one thread that writes. Commit groups form by themselves: while one is on its way to the disk
the next gathers, and it is closed when the loop has told the fates of the last one. No timer, no
linger: waiting only ever made it slower.
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
from app.log.append_results import Storing
from app.log.commit import Append, Fates, Rider, Staged
from app.log.known import Known
from app.log.loop_handoff import Hop
from app.log.settings import EngineSettings

T = TypeVar("T")
Job = Callable[[apsw.Connection], Any]

IDLE = 0.2  # seconds without work before the write-ahead log is folded back into the file
MOST_RECORDS = 4_096  # of one commit group, about: bounds what one fsync keeps waiting


class Writer:
    """``append``, ``run`` and ``ride`` are called on the event loop; all else happens in the thread.

    ``on_round``: called on the loop when a commit group is about to be closed: who has something to go along
    with it says so now.
    """

    def __init__(
        self,
        settings: EngineSettings,
        known: Known,
        on_stored: Callable[[Fates, list[Staged]], None],
        on_round: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._on_stored = on_stored
        self._on_round = on_round
        self._loop = asyncio.get_running_loop()
        self._hop = Hop(self._loop)
        self._appends: deque[Append] = deque()
        self._jobs: deque[tuple[Job, asyncio.Future[Any]]] = deque()
        self._riders: deque[tuple[Rider, asyncio.Future[None]]] = deque()
        self._tokens: SimpleQueue[None] = SimpleQueue()
        self._idle = True  # the thread waits, and nothing is being gathered
        self._stopping = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.storing = Storing(settings, known)
        self._db: apsw.Connection

    # on the event loop

    def start(self, opening: Callable[[], apsw.Connection]) -> asyncio.Future[None]:
        """Done when the file is open, or with the error that opening raised."""
        opened: asyncio.Future[None] = self._loop.create_future()
        name = f"log-writer-{self._settings.name}"
        threading.Thread(target=self._main, args=(opening, opened), name=name, daemon=True).start()
        return opened

    def append(self, append: Append) -> None:
        self._appends.append(append)
        if self._idle:
            self._wake()

    def run(self, job: Callable[[apsw.Connection], T]) -> asyncio.Future[T]:
        """Run ``job`` in the thread between commit groups. It opens its own transaction. The future
        gets its result, or a BrokerError for what went wrong in the file."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.append((job, future))
        if self._idle:
            self._wake()
        return future

    def ride(self, store: Callable[[apsw.Connection], Callable[[], None]]) -> asyncio.Future[None]:
        """Run ``store`` in the transaction of the next commit group, or in its own where none is due, and what it
        returns after that. The future is done when that is durable, or has a BrokerError."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._riders.append((Rider(store), future))
        if self._idle:
            self._wake()
        return future

    async def stop(self) -> None:
        """Everything taken so far is stored first."""
        self._stopping = True
        self._tokens.put(None)
        await self._ended

    def _wake(self) -> None:
        """After this turn of the loop, so that its other submits join the group."""
        self._idle = False
        self._loop.call_soon(self._begin_round)

    def _begin_round(self) -> None:
        try:
            if self._appends:
                self._on_round()
        finally:
            self._tokens.put(None)

    def _worked(self, fates: Fates, grown: list[Staged]) -> None:
        """Answer first, then begin the next round. A thread that went on by itself would take the few
        appends that came while the loop waited for the interpreter, and pay a commit for them."""
        if fates:
            self._on_stored(fates, grown)
        if self._waiting:
            self._wake()
        else:
            self._idle = True

    @property
    def _waiting(self) -> bool:
        return bool(self._appends or self._jobs or self._riders)

    # in the thread

    def _main(self, opening: Callable[[], apsw.Connection], opened: asyncio.Future[None]) -> None:
        try:
            self._db = opening()
            self.storing.open(self._db)
        except BaseException as error:  # noqa: BLE001 - handed to the task that awaits the start
            self._hop.refuse(opened, error)
            return
        self._hop.answer(opened, None)
        try:
            self._serve()
        finally:
            with suppress(apsw.Error):
                self._db.close()
            self._hop.answer(self._ended, None)

    def _serve(self) -> None:
        while not self._stopping:
            if self._rest():
                self._work()
        while self._waiting:
            self._work()
        self.storing.close()

    def _rest(self) -> bool:
        """Wait for work; when none comes for a while, fold the write-ahead log."""
        try:
            self._tokens.get(timeout=IDLE if self.storing.restless else None)
        except Empty:
            self.storing.tidy()
            return False
        return True

    def _work(self) -> None:
        """What is asked for while this looks must not overtake a rider that was there before: jobs first."""
        jobs = [self._jobs.popleft() for _ in range(len(self._jobs))]
        rider, told = self._riders.popleft() if self._riders else (None, None)
        appends = self._take()
        fates, grown = self.storing.store(appends, rider) if appends else ([], [])
        if rider is not None and told is not None:
            self._do(rider, told)
        for job in jobs:
            self._do(*job)
        self._hop.call(self._worked, fates, grown)
        self.storing.checkpoint_when_due()

    def _take(self) -> list[Append]:
        """What has gathered, in order, up to the bound of a commit group."""
        appends: list[Append] = []
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
            self._hop.refuse(
                future, BrokerUnavailable(self.storing.broken, broker=self._settings.name)
            )
            return
        try:
            result = job(self._db)
        except apsw.Error as error:
            self._hop.refuse(future, self.storing.explain(error))
        except Exception as error:  # noqa: BLE001 - handed to the task that awaits the job
            self._hop.refuse(future, error)
        else:
            self._hop.answer(future, result)
