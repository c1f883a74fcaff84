"""The file of a log: folder lock, connections, pragmas, tables and format version."""

from __future__ import annotations

import logging
import os
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Literal
from uuid import uuid4

import apsw

from app.errors import InUse, SetupError
from app.log.lock_file import FOLDER, LockHeld, keep_private, take_lock

FILE = "log.db"
LOCK = "lock"
SCHEMA_VERSION = 6
APPLICATION_ID = 0x536B7942  # "SkyB": marks a log of Skybridge among SQLite files
BUSY_MS = 5_000
STATEMENTS = 2_000  # cached prepared statements: one insert per active segment
Synchronous = Literal["FULL", "NORMAL", "OFF"]

_log = logging.getLogger(__name__)

_TABLES = """
CREATE TABLE topics(
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, partitions INTEGER NOT NULL) STRICT;
CREATE TABLE segments(
  id INTEGER PRIMARY KEY, topic INTEGER NOT NULL, partition INTEGER NOT NULL,
  base_offset INTEGER NOT NULL, end_offset INTEGER NOT NULL, bytes INTEGER NOT NULL,
  last_ms INTEGER NOT NULL) STRICT;
CREATE TABLE groups(
  name TEXT PRIMARY KEY, generation INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE positions(
  "group" TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
  next_offset INTEGER NOT NULL, metadata TEXT NOT NULL,
  PRIMARY KEY("group", topic, partition)) STRICT, WITHOUT ROWID;
CREATE TABLE declared(
  "group" TEXT NOT NULL, topic TEXT NOT NULL, drop_unread INTEGER NOT NULL,
  PRIMARY KEY("group", topic)) STRICT, WITHOUT ROWID;
"""

_SINCE_2 = """
DROP TABLE IF EXISTS producers;
CREATE TABLE producers(
  id INTEGER NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, epoch INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, batches TEXT NOT NULL,
  PRIMARY KEY(id, topic, partition)) STRICT, WITHOUT ROWID;
CREATE TABLE identity(name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
"""
"""The statements that upgrade format 1, whose table of producers was never written to."""

_SINCE_3 = "ALTER TABLE groups ADD COLUMN used_ms INTEGER NOT NULL DEFAULT 0"
_SINCE_4 = """
CREATE TABLE identities(
  number INTEGER PRIMARY KEY, route TEXT NOT NULL, topic TEXT NOT NULL, most INTEGER NOT NULL,
  until_ms INTEGER NOT NULL, entries BLOB NOT NULL) STRICT;
CREATE INDEX identities_until ON identities(until_ms);
"""
_SINCE_5 = """
CREATE TABLE prints(
  segment INTEGER NOT NULL, base_offset INTEGER NOT NULL, prints BLOB NOT NULL,
  PRIMARY KEY(segment, base_offset)) STRICT, WITHOUT ROWID;
"""
_SINCE_6 = """
CREATE TABLE IF NOT EXISTS owners(
  kind TEXT NOT NULL, name TEXT NOT NULL, user TEXT NOT NULL,
  PRIMARY KEY(kind, name)) STRICT, WITHOUT ROWID;
"""
"""The table of the Kafka listener's users that created topics or groups. A topic or group of any other creator has
no row."""


class FolderLock:
    """The lock of a log folder, so that only one process writes. Two processes would assign the same offsets."""

    def __init__(self, folder: Path, setting: str) -> None:
        self._folder = folder
        self._setting = setting
        self._file = -1

    def acquire(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=FOLDER)  # it holds event data
            self._file = take_lock(self._folder / LOCK)
        except LockHeld as held:
            raise InUse(
                f"the log in {self._folder} is open in {held.holder}",
                setting=self._setting,
                cure=f"{held.cure}, or give this log its own folder",
            ) from held
        except OSError as error:
            raise SetupError(
                f"the log folder {self._folder} cannot be used: {error.strerror}",
                setting=self._setting,
                cure="name a folder that this user may write to",
            ) from error

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def open_writer(
    folder: Path, setting: str, synchronous: Synchronous, vfs: str | None
) -> apsw.Connection:
    """Open the only connection that writes and checkpoints. Raise SetupError if the file is not a log."""
    keep_private(folder / FILE, _log)
    db = apsw.Connection(str(folder / FILE), vfs=vfs, statementcachesize=STATEMENTS)
    try:
        _prepare(db, folder, setting, synchronous)
    except apsw.NotADBError as error:
        db.close()
        raise _not_a_log(folder, setting) from error
    except BaseException:
        db.close()
        raise
    return db


def open_reader(folder: Path, vfs: str | None) -> apsw.Connection:
    db = apsw.Connection(
        str(folder / FILE),
        flags=apsw.SQLITE_OPEN_READONLY,
        vfs=vfs,
        statementcachesize=STATEMENTS,
    )
    db.set_busy_timeout(BUSY_MS)
    return db


def damage(db: apsw.Connection) -> list[str]:
    """Return what SQLite's quick check finds wrong with the file. It reads the whole file."""
    found: list[str] = []
    try:
        found += [str(row[0]) for row in db.execute("PRAGMA quick_check(20)")]
    except apsw.CorruptError as error:  # too damaged for the check
        found.append(str(error))
    return [] if found == ["ok"] else found


def _prepare(db: apsw.Connection, folder: Path, setting: str, synchronous: Synchronous) -> None:
    db.set_busy_timeout(BUSY_MS)
    version = _pragma(db, "user_version")
    tables = _count(db)
    if tables and _pragma(db, "application_id") != APPLICATION_ID:
        raise _not_a_log(folder, setting)
    if version > SCHEMA_VERSION:
        raise SetupError(
            f"the log in {folder} has format {version}; this version reads up to {SCHEMA_VERSION}",
            setting=setting,
            cure="run the newer version that wrote it, or start with an empty folder",
        )
    db.pragma("journal_mode", "wal")
    db.pragma("synchronous", synchronous)
    db.wal_autocheckpoint(0)  # the writer checkpoints itself
    if version < SCHEMA_VERSION:
        with db:
            _migrate(db, version, new=not tables)


def cluster_id(db: apsw.Connection) -> str:
    """Return the unique id of this log, which never changes."""
    ((name,),) = db.execute("SELECT value FROM identity WHERE name = 'cluster'")
    return str(name)


def _migrate(db: apsw.Connection, version: int, *, new: bool) -> None:
    if new:
        db.execute(_TABLES)
        db.pragma("application_id", APPLICATION_ID)
    if version < 2:  # noqa: PLR2004 - a format
        db.execute(_SINCE_2)
        name = (
            urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        )  # the form of Kafka's cluster ids
        db.execute("INSERT INTO identity VALUES('cluster', ?)", (name,))
    if version < 3:  # noqa: PLR2004
        db.execute(_SINCE_3)
    if version < 4:  # noqa: PLR2004
        db.execute(_SINCE_4)
    if version < 5:  # noqa: PLR2004
        db.execute(_SINCE_5)
    db.execute(_SINCE_6)
    db.pragma("user_version", SCHEMA_VERSION)


def _not_a_log(folder: Path, setting: str) -> SetupError:
    return SetupError(
        f"{folder / FILE} is not a log of Skybridge, or its first page is damaged",
        setting=setting,
        cure="name another folder, or restore the file from a backup",
    )


def _pragma(db: apsw.Connection, name: str) -> int:
    return int(db.pragma(name))


def _count(db: apsw.Connection) -> int:
    return int(next(db.execute("SELECT count(*) FROM sqlite_schema"))[0])
