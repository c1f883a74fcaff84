"""The one thread that writes. Commit groups form by themselves: while one is on its way to the disk
the next gathers. No timer, no linger: waiting only ever made it slower.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw

from app.bindings.record import Record
from app.errors import BoundReached, BrokerError, BrokerRefused, BrokerUnavailable
from app.interfaces import PublishResult
from app.log.catalogue import Catalogue, PartitionLog
from app.log.commit import Append, CommitGroup, Fates, all_failed
from app.log.faults import judge
from app.log.hop import Hop
from app.log.settings import EngineSettings
from app.log.space import Space

T = TypeVar("T")
Job = Callable[[apsw.Connection], Any]
_log = logging.getLogger(__name__)

IDLE = 0.2  # seconds without work before the write-ahead log is folded back into the file
MOST_RECORDS = 4_096  # of one commit group, about: bounds what one fsync keeps waiting
FULL_RETRY = 1.0  # seconds a sender is asked to wait for room


class Writer:
    """``append`` and ``run`` are called on the event loop; all else happens in the thread."""

    def __init__(
        self,
        settings: EngineSettings,
        catalogue: Catalogue,
        on_stored: Callable[[Fates, list[PartitionLog]], None],
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._on_stored = on_stored
        self._loop = asyncio.get_running_loop()
        self._hop = Hop(self._loop)
        self._appends: deque[Append] = deque()
        self._jobs: deque[tuple[Job, asyncio.Future[Any]]] = deque()
        self._tokens: SimpleQueue[None] = SimpleQueue()
        self._idle = False
        self._stopping = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.broken = ""  # why nothing is accepted any more
        self.full = ""  # why nothing is accepted for now
        self._not_stored = BrokerUnavailable("not stored: nobody waited", broker=settings.name)
        self._db: apsw.Connection
        self._space: Space

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

    async def stop(self) -> None:
        """Everything taken so far is stored first."""
        self._stopping = True
        self._tokens.put(None)
        await self._ended

    def _wake(self) -> None:
        """After this turn of the loop, so that its other submits join the group."""
        self._idle = False
        self._loop.call_soon(self._tokens.put, None)

    # in the thread

    def _main(self, opening: Callable[[], apsw.Connection], opened: asyncio.Future[None]) -> None:
        try:
            self._db = opening()
            self._space = Space(self._db, self._settings)
        except BaseException as error:  # noqa: BLE001 - handed to whoever awaits the start
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
        while True:
            if self._appends or self._jobs:
                self._work()
            elif self._stopping:
                self._guarded(self._space.fold)
                return
            else:
                self._rest()

    def _rest(self) -> None:
        """Wait for work; when none comes for a while, fold the write-ahead log."""
        self._idle = True
        if not (self._appends or self._jobs or self._stopping):
            try:
                self._tokens.get(timeout=IDLE if self._space.unfolded or self.full else None)
            except Empty:
                self._guarded(self._tidy)
        self._idle = False

    def _tidy(self) -> None:
        self._space.fold()
        self.full = self._space.full()  # room may have come back without anybody asking for it

    def _work(self) -> None:
        for _ in range(len(self._jobs)):
            self._do(*self._jobs.popleft())
        appends = self._take()
        if appends:
            try:
                fates, grown = self._store(appends)
            except Exception as error:  # noqa: BLE001 - a bug: nobody may wait for ever because of it
                _log.exception("log %s", self._settings.name)
                self._break(error)
                fates = all_failed(appends, BrokerUnavailable(self.broken))
                grown = []
            self._hop.call(self._on_stored, fates, grown)
        self._guarded(self._space.checkpoint_when_due)

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
        if self.broken:
            self._hop.refuse(future, BrokerUnavailable(self.broken, broker=self._settings.name))
            return
        try:
            result = job(self._db)
        except apsw.Error as error:
            self._hop.refuse(future, self._explain(error))
        except Exception as error:  # noqa: BLE001 - handed to whoever awaits the job
            self._hop.refuse(future, error)
        else:
            self._hop.answer(future, result)

    def _store(self, appends: list[Append]) -> tuple[Fates, list[PartitionLog]]:
        """The fate of every append; none of those that nobody waits for is stored (rule 9)."""
        live: list[Append] = []
        given_up: list[Append] = []
        for append in appends:
            (given_up if append.done() else live).append(append)
        fates = all_failed(given_up, self._not_stored)
        refusal = self.refusal()
        if refusal is not None:
            return fates + all_failed(live, refusal), []
        known, unknown = self._with_topics(live)
        stored, grown = self._store_group(known)
        return fates + unknown + stored, grown

    def refusal(self) -> BrokerError | None:
        """Why nothing can be stored now."""
        name = self._settings.name
        if self.broken:
            return BrokerUnavailable(self.broken, broker=name)
        self.full = self._space.full()
        if self.full:
            return BoundReached(self.full, broker=name, retry_after=FULL_RETRY)
        return None

    def _with_topics(self, appends: list[Append]) -> tuple[list[Append], Fates]:
        """Create the topics that are missing; those that cannot be fail their appends alone."""
        known: list[Append] = []
        failed: Fates = []
        for append in appends:
            try:
                self._catalogue.create(self._db, append.topic, self._settings.partitions)
                known.append(append)
            except apsw.Error as error:
                failed += all_failed([append], self._explain(error))
            except BrokerError as error:
                failed += all_failed([append], error)
        return known, failed

    def _store_group(self, appends: list[Append]) -> tuple[Fates, list[PartitionLog]]:
        if not appends:
            return [], []
        try:
            return self._commit(appends)
        except apsw.Error as error:
            if judge(error) != "row":
                return all_failed(appends, self._explain(error)), []
        return self._store_one_by_one(appends)

    def _store_one_by_one(self, appends: list[Append]) -> tuple[Fates, list[PartitionLog]]:
        """One bad record must not fail its neighbours: each in a transaction of its own."""
        fates: Fates = []
        grown: list[PartitionLog] = []
        for append in appends:
            results: list[Any] = []
            for record in append.records:
                single = _Single(append.topic, (record,))
                try:
                    ((_, one),), more = self._commit([single])
                    results += one
                    grown += more
                except apsw.Error as error:
                    results.append(self._explain(error))
            fates.append((append, results))
        return fates, grown

    def _commit(self, appends: list[Append]) -> tuple[Fates, list[PartitionLog]]:
        group = CommitGroup(self._catalogue, self._settings)
        fates: Fates = [(append, group.add(append)) for append in appends]
        execute = self._db.execute
        execute("BEGIN IMMEDIATE")
        try:
            group.store(self._db)
            execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                with suppress(apsw.Error):
                    execute("ROLLBACK")
            raise
        return fates, group.publish()

    def _explain(self, error: apsw.Error) -> BrokerError:
        name = self._settings.name
        match judge(error):
            case "broken":
                self._break(error)
                return BrokerUnavailable(self.broken, broker=name)
            case "full":
                self._space.disk_was_full()
                self.full = self._space.full()
                return BoundReached(f"no room: {error}", broker=name, retry_after=FULL_RETRY)
            case "busy":
                return BrokerUnavailable(f"the log's file is busy: {error}", broker=name)
            case _:
                return BrokerRefused(f"the record cannot be stored: {error}", broker=name)

    def _break(self, error: Exception) -> None:
        """For good: only a new start, which reads what the disk really has, may go on."""
        if not self.broken:
            _log.critical("log %s stops accepting: %s", self._settings.name, error)
            self.broken = (
                f"the log failed and accepts nothing more ({error}). "
                "Check the disk, then start again"
            )

    def _guarded(self, work: Callable[[], None]) -> None:
        if self.broken:
            return
        try:
            work()
        except apsw.Error as error:
            if judge(error) == "broken":
                self._break(error)
            else:
                _log.warning("log %s: checkpoint put off: %s", self._settings.name, error)


class _Single:
    """One record by itself."""

    def __init__(self, topic: str, records: Sequence[Record]) -> None:
        self.topic = topic
        self.records = records

    def done(self) -> bool:
        return False

    def resolve_all(self, results: list[PublishResult]) -> None:
        """Its fate is taken from ``_commit``."""
