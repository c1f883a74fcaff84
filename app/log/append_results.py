"""The fate of every append: stored, refused, or why not for now. In the writer thread only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Literal

import apsw

from app.errors import BoundReached, BrokerError, BrokerRefused, BrokerUnavailable
from app.interfaces import PublishResult
from app.log.codec import Unstorable
from app.log.commit import Append, CommitGroup, Fates, Rider, Single, Staged, all_failed
from app.log.known import Known
from app.log.partition_append import Placed
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
    """``broken``: the disk did not do what it said, or the file is damaged. Never tried again: after
    a failed fsync the kernel may have dropped the pages, and a second fsync would report success.
    ``full``: no room; everything before is intact, and it may be tried when room returns.
    ``busy``: somebody else holds the file for now. ``row``: this row will not go in.
    """
    if isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) in _SHM_FULL:
        return "full"
    if isinstance(error, _BROKEN):
        return "broken"
    if isinstance(error, apsw.BusyError | apsw.LockedError | apsw.NoMemError):
        return "busy"
    return "row"


_log = logging.getLogger(__name__)
FULL_RETRY = 1.0  # seconds a sender is asked to wait for room


class Storing:
    """``broken``: why nothing is accepted any more. ``full``: why nothing is for now. The event loop
    reads both."""

    def __init__(self, settings: EngineSettings, known: Known) -> None:
        self._settings = settings
        self._known = known
        self._catalogue = known.catalogue
        self._not_stored = BrokerUnavailable("not stored: nobody waited", broker=settings.name)
        self._db: apsw.Connection
        self.space: Space
        self.broken = ""
        self.full = ""

    def open(self, db: apsw.Connection) -> None:
        self._db = db
        self.space = Space(db, self._settings)

    def store(
        self, appends: list[Append], rider: Rider | None = None
    ) -> tuple[Fates, list[Staged]]:
        """The fate of each, and by what partitions have grown. Never raises: nobody may wait for ever
        because of a bug here."""
        try:
            return self._store(appends, rider)
        except Exception as error:  # noqa: BLE001 - told to every waiting caller
            _log.exception("log %s", self._settings.name)
            self.break_off(error)
            return all_failed(appends, BrokerUnavailable(self.broken)), []

    def refusal(self) -> BrokerError | None:
        """Why nothing can be stored now."""
        name = self._settings.name
        if self.broken:
            return BrokerUnavailable(self.broken, broker=name)
        self.full = self.space.full()
        if self.full:
            return BoundReached(self.full, broker=name, retry_after=FULL_RETRY)
        return None

    def explain(self, error: apsw.Error) -> BrokerError:
        """What an error of SQLite means for a caller; a broken disk stops acceptance for good."""
        name = self._settings.name
        match judge(error):
            case "broken":
                self.break_off(error)
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

    def break_off(self, error: Exception) -> None:
        """For good: only a new start, which reads what the disk really has, may go on."""
        if not self.broken:
            _log.critical("log %s stops accepting: %s", self._settings.name, error)
            self.broken = (
                f"the log failed and accepts no more records ({error}). "
                "Check the disk, then start again"
            )

    def tidy(self) -> None:
        """In an idle moment: fold, and see whether room came back without anybody asking for it."""
        self._guarded(self._fold_and_look)

    def close(self) -> None:
        """Note where the partitions end, and fold."""
        self._guarded(self._note_and_fold)

    def _note_and_fold(self) -> None:
        self._catalogue.note_ends(self._db)
        self.space.fold()

    def _fold_and_look(self) -> None:
        self.space.fold()
        self.full = self.space.full()

    def checkpoint_when_due(self) -> None:
        self._guarded(self.space.checkpoint_when_due)

    @property
    def restless(self) -> bool:
        """An idle moment has something to do."""
        return self.space.unfolded or bool(self.full)

    def _guarded(self, upkeep: Callable[[], None]) -> None:
        if self.broken:
            return
        try:
            upkeep()
        except apsw.Error as error:
            if judge(error) == "broken":
                self.break_off(error)
            else:
                _log.warning("log %s: upkeep postponed: %s", self._settings.name, error)

    def _store(self, appends: list[Append], rider: Rider | None) -> tuple[Fates, list[Staged]]:
        """What nobody waits for any more is not stored (rule 9)."""
        live: list[Append] = []
        given_up: list[Append] = []
        for append in appends:
            (given_up if append.done() else live).append(append)
        fates = all_failed(given_up, self._not_stored)
        refusal = self.refusal()
        if refusal is not None:
            return fates + all_failed(live, refusal), []
        known, unknown = self._with_topics(live)
        stored, grown = self._store_group(known, rider)
        return fates + unknown + stored, grown

    def _with_topics(self, appends: list[Append]) -> tuple[list[Append], Fates]:
        """Create the topics that are missing; those that cannot be fail their appends alone."""
        known: list[Append] = []
        failed: Fates = []
        for append in appends:
            try:
                if append.topic not in self._catalogue.topics:
                    if isinstance(append, Placed):  # deleted meanwhile: it had chosen a partition
                        raise BrokerRefused(f"no topic {append.topic}", kind="unknown-topic")
                    self._catalogue.create(self._db, append.topic, self._settings.partitions)
                known.append(append)
            except apsw.Error as error:
                failed += all_failed([append], self.explain(error))
            except BrokerError as error:
                failed += all_failed([append], error)
        return known, failed

    def _store_group(
        self, appends: list[Append], rider: Rider | None
    ) -> tuple[Fates, list[Staged]]:
        if not appends:
            return [], []
        try:
            return self._commit(appends, rider)
        except apsw.Error as error:
            if judge(error) != "row":
                return all_failed(appends, self.explain(error)), []
        return self._store_one_by_one(appends)

    def _store_one_by_one(self, appends: list[Append]) -> tuple[Fates, list[Staged]]:
        """One bad record must not fail its neighbours: each in a transaction of its own."""
        fates: Fates = []
        grown: list[Staged] = []
        for append in appends:
            results: list[PublishResult] = []
            for part in _parts(append):
                try:
                    ((_, one),), more = self._commit([part])
                    results += one
                    grown += more
                except apsw.Error as error:
                    results.append(self.explain(error))
            fates.append((append, results))
        return fates, grown

    def _commit(
        self, appends: Sequence[Append], rider: Rider | None = None
    ) -> tuple[Fates, list[Staged]]:
        group, fates = self._staged(appends)
        execute = self._db.execute
        execute("BEGIN IMMEDIATE")
        try:
            group.store(self._db)
            if rider is not None:
                rider.store(self._db)
            execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                with suppress(apsw.Error):
                    execute("ROLLBACK")
            raise
        if rider is not None:
            rider.publish()
        return fates, group.publish()

    def _staged(self, appends: Sequence[Append]) -> tuple[CommitGroup, Fates]:
        """Encoded at once; only when that fails is it asked of each record whether it can be."""
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


def _parts(append: Append) -> Iterator[Append]:
    """What of it is stored or refused by itself."""
    if isinstance(append, Placed):
        yield append
    else:
        identities = append.identities or (None,) * len(append.records)
        for record, identity in zip(append.records, identities, strict=True):
            yield Single(append.topic, record, identity)
