"""Store appends and compute their results: stored, refused, or not possible now. Used in the writer thread only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Literal

import apsw

from app.errors import BoundReached, BrokerError, BrokerRefused, BrokerUnavailable
from app.interfaces import PublishResult
from app.log.codec import Unstorable
from app.log.commit import (
    AppendRequest,
    CommitGroup,
    Fates,
    Piggyback,
    SingleAppend,
    StagedRecords,
    all_failed,
)
from app.log.known import LogState
from app.log.partition_append import PartitionAppend
from app.log.settings import EngineSettings
from app.log.size import Space

Verdict = Literal["broken", "full", "busy", "row"]

_BROKEN = (
    apsw.IOError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.CantOpenError,
    apsw.ConnectionClosedError,
)
_SHM_FULL = frozenset({apsw.SQLITE_IOERR_SHMSIZE, apsw.SQLITE_IOERR_SHMMAP})


def judge(error: apsw.Error) -> Verdict:
    """Classify an error of SQLite.

    ``broken``: the disk failed or the file is damaged. This is final: after a failed fsync the kernel may have
    dropped the pages, and a second fsync would report success. ``full``: there is no room; stored records are
    intact, and a later try may succeed. ``busy``: another connection has the file locked. ``row``: this row cannot
    be stored."""
    if isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) in _SHM_FULL:
        return "full"
    if isinstance(error, _BROKEN):
        return "broken"
    if isinstance(error, apsw.BusyError | apsw.LockedError | apsw.NoMemError):
        return "busy"
    return "row"


_log = logging.getLogger(__name__)
FULL_RETRY = 1.0  # seconds after which a sender may try again when the log is full


class AppendProcessor:
    """Stores appends in commit groups and computes their results.

    ``broken`` is the reason why no appends are accepted until a restart, and ``full`` the reason why none are
    accepted now. The event loop reads both."""

    def __init__(self, settings: EngineSettings, known: LogState) -> None:
        self._settings = settings
        self._known = known
        self._catalogue = known.catalogue
        self._not_stored = BrokerUnavailable("not stored: the caller gave up", broker=settings.name)
        self._db: apsw.Connection
        self.space: Space
        self.broken = ""
        self.full = ""

    def open(self, db: apsw.Connection) -> None:
        self._db = db
        self.space = Space(db, self._settings)

    def store(
        self, appends: list[AppendRequest], piggyback: Piggyback | None = None
    ) -> tuple[Fates, list[StagedRecords]]:
        """Store the appends. Return their results, and what was added to each partition.

        It never raises an error, so that every caller gets a result even after a bug."""
        try:
            return self._store(appends, piggyback)
        except Exception as error:  # noqa: BLE001 - becomes the result of every append
            _log.exception("log %s", self._settings.name)
            self.fail_permanently(error)
            return all_failed(appends, BrokerUnavailable(self.broken)), []

    def refusal(self) -> BrokerError | None:
        """Return why no record can be stored now, or None."""
        name = self._settings.name
        if self.broken:
            return BrokerUnavailable(self.broken, broker=name)
        self.full = self.space.full()
        if self.full:
            return BoundReached(self.full, broker=name, retry_after=FULL_RETRY)
        return None

    def as_broker_error(self, error: apsw.Error) -> BrokerError:
        """Return the error of SQLite as a broker error. After a broken disk, no more records are accepted until a
        restart."""
        name = self._settings.name
        match judge(error):
            case "broken":
                self.fail_permanently(error)
                return BrokerUnavailable(self.broken, broker=name)
            case "full":
                self.full = self.space.full()
                return BoundReached(f"no room: {error}", broker=name, retry_after=FULL_RETRY)
            case "busy":
                return BrokerUnavailable(f"the log's file is busy: {error}", broker=name)
            case _:
                kind = "record-too-large" if isinstance(error, apsw.TooBigError) else "other"
                return BrokerRefused(
                    f"the record cannot be stored: {error}", kind=kind, broker=name
                )

    def fail_permanently(self, error: Exception) -> None:
        """Accept no appends until a restart, which reads what the disk really has."""
        if not self.broken:
            _log.critical("log %s accepts no more records: %s", self._settings.name, error)
            self.broken = (
                f"the log failed and accepts no more records ({error}). "
                "Check the disk, then start again"
            )

    def tidy(self) -> None:
        """Checkpoint while the log is idle, and check whether a full log has room again."""
        self._guarded(self._checkpoint_and_check)

    def close(self) -> None:
        """Store the ends of the partitions, and checkpoint."""
        self._guarded(self._note_ends_and_checkpoint)

    def _note_ends_and_checkpoint(self) -> None:
        self._catalogue.note_ends(self._db)
        self.space.checkpoint()

    def _checkpoint_and_check(self) -> None:
        self.space.checkpoint()
        self.full = self.space.full()

    def checkpoint_when_due(self) -> None:
        self._guarded(self.space.checkpoint_when_due)

    @property
    def has_idle_work(self) -> bool:
        """Return True if there is work to do while the log is idle."""
        return self.space.needs_checkpoint or bool(self.full)

    def _guarded(self, upkeep: Callable[[], None]) -> None:
        if self.broken:
            return
        try:
            upkeep()
        except apsw.Error as error:
            if judge(error) == "broken":
                self.fail_permanently(error)
            else:
                _log.warning("log %s: upkeep postponed: %s", self._settings.name, error)

    def _store(
        self, appends: list[AppendRequest], piggyback: Piggyback | None
    ) -> tuple[Fates, list[StagedRecords]]:
        """Store the appends whose callers still wait."""
        live: list[AppendRequest] = []
        given_up: list[AppendRequest] = []
        for append in appends:
            (given_up if append.done() else live).append(append)
        fates = all_failed(given_up, self._not_stored)
        refusal = self.refusal()
        if refusal is not None:
            return fates + all_failed(live, refusal), []
        known, unknown = self._with_topics(live)
        stored, grown = self._store_group(known, piggyback)
        return fates + unknown + stored, grown

    def _with_topics(self, appends: list[AppendRequest]) -> tuple[list[AppendRequest], Fates]:
        """Create missing topics. Return the appends with a topic, and the results of those without one."""
        known: list[AppendRequest] = []
        failed: Fates = []
        for append in appends:
            try:
                if append.topic not in self._catalogue.topics:
                    if isinstance(
                        append, PartitionAppend
                    ):  # the topic was deleted after the partition was chosen
                        raise BrokerRefused(f"no topic {append.topic}", kind="unknown-topic")
                    self._catalogue.create(self._db, append.topic, self._settings.partitions)
                known.append(append)
            except apsw.Error as error:
                failed += all_failed([append], self.as_broker_error(error))
            except BrokerError as error:
                failed += all_failed([append], error)
        return known, failed

    def _store_group(
        self, appends: list[AppendRequest], piggyback: Piggyback | None
    ) -> tuple[Fates, list[StagedRecords]]:
        if not appends:
            return [], []
        try:
            return self._commit(appends, piggyback)
        except apsw.Error as error:
            if judge(error) != "row":
                return all_failed(appends, self.as_broker_error(error)), []
        return self._store_one_by_one(appends)

    def _store_one_by_one(self, appends: list[AppendRequest]) -> tuple[Fates, list[StagedRecords]]:
        """Store each record in a transaction of its own, so that a bad record does not fail the others."""
        fates: Fates = []
        grown: list[StagedRecords] = []
        for append in appends:
            results: list[PublishResult] = []
            for part in _parts(append):
                try:
                    ((_, one),), more = self._commit([part])
                    results += one
                    grown += more
                except apsw.Error as error:
                    results.append(self.as_broker_error(error))
            fates.append((append, results))
        return fates, grown

    def _commit(
        self, appends: Sequence[AppendRequest], piggyback: Piggyback | None = None
    ) -> tuple[Fates, list[StagedRecords]]:
        group, fates = self._staged(appends)
        execute = self._db.execute
        execute("BEGIN IMMEDIATE")
        try:
            group.store(self._db)
            if piggyback is not None:
                piggyback.store(self._db)
            execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                with suppress(apsw.Error):
                    execute("ROLLBACK")
            raise
        if piggyback is not None:
            piggyback.publish()
        return fates, group.publish()

    def _staged(self, appends: Sequence[AppendRequest]) -> tuple[CommitGroup, Fates]:
        """Stage and encode all appends. If a record cannot be encoded, stage them again with a check of each
        record."""
        group = self._group()
        fates: Fates = [(append, group.add(append)) for append in appends]
        try:
            group.encode()
        except Unstorable:
            group = self._group()
            fates = [(append, group.add_checked(append)) for append in appends]
            group.encode()
        return group, fates

    def _group(self) -> CommitGroup:
        return CommitGroup(self._settings, self._known)


def _parts(append: AppendRequest) -> Iterator[AppendRequest]:
    """Yield the parts of an append that are stored or refused separately."""
    if isinstance(append, PartitionAppend):
        yield append
    else:
        identities = append.identities or (None,) * len(append.records)
        for record, identity in zip(append.records, identities, strict=True):
            yield SingleAppend(append.topic, record, identity)
