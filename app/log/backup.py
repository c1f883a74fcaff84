"""A log as one file that stands alone: copied while its service writes to it, and put back."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw

from app.errors import SetupError
from app.log.database import (
    APPLICATION_ID,
    FILE,
    SCHEMA_VERSION,
    FolderLock,
    damage,
    open_reader,
    open_writer,
)
from app.log.lock_file import keep_private

PAGES = 2_048  # copied between two looks at the progress
FENCE = 1 << 20
"""How far generations go up when a log is put back: beyond every one that it handed out since the backup, so
that the store takes the writes of its owners for newer ones (rule 5)."""
_PART = "restoring"

_log = logging.getLogger(__name__)


def back_up(folder: Path, target: Path, told: Callable[[int, int], None]) -> None:
    """The log as it is at one moment: all that was acknowledged before the call is in it. Nobody waits for it,
    but the log's file cannot give back room meanwhile.

    ``told``: pages copied, and all. Raises OSError and apsw.Error.
    """
    with closing(open_reader(folder, None)) as reading, closing(_new(target)) as writing:
        reading.execute("BEGIN")  # one moment, however long it takes: a writer would restart it
        reading.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        with writing.backup("main", reading, "main") as copying:
            while not copying.done:
                copying.step(PAGES)
                told(copying.page_count - copying.remaining, copying.page_count)
        writing.pragma("journal_mode", "delete")  # one file


def restore(folder: Path, source: Path, setting: str) -> Path | None:
    """Puts what ``back_up`` has made in the place of the log. Where the one that was there is now; None where
    there was none. Raises SetupError while a service has the log, and for a file that is no whole log.
    """
    demand_whole(source)
    lock = FolderLock(folder, setting)
    lock.acquire()
    try:
        part = folder / _PART
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700)
        _make_newer(source, part, setting)
        kept = _set_aside(folder)
        (part / FILE).rename(folder / FILE)
        _sync(folder)
        shutil.rmtree(part)
    finally:
        lock.release()
    return kept


def demand_whole(source: Path) -> None:
    """Raises SetupError."""
    try:
        with closing(apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)) as db:
            found = _faults(db)
    except apsw.Error as error:
        found = [str(error)]
    if found:
        raise SetupError(
            f"{source} is not a complete log: {'; '.join(found)}", cure="take another backup"
        )


def _faults(db: apsw.Connection) -> list[str]:
    version = int(db.pragma("user_version"))
    if int(db.pragma("application_id")) != APPLICATION_ID:
        return ["it is not a log of Skybridge"]
    if version > SCHEMA_VERSION:
        return [f"it has format {version}, and this version reads up to {SCHEMA_VERSION}"]
    return damage(db)


def _make_newer(source: Path, folder: Path, setting: str) -> None:
    """In a folder beside, so that a log whose generations went back is never there to be started."""
    keep_private(folder / FILE, _log)
    shutil.copyfile(source, folder / FILE)
    db = open_writer(folder, setting, "FULL", None)
    with closing(db), db:
        db.execute("UPDATE groups SET generation = generation + ?", (FENCE,))
        db.execute("INSERT OR IGNORE INTO identity VALUES('generation', 0)")
        db.execute("UPDATE identity SET value = value + ? WHERE name = 'generation'", (FENCE,))
    with closing(apsw.Connection(str(folder / FILE))) as db:
        db.pragma("journal_mode", "delete")


def _set_aside(folder: Path) -> Path | None:
    """With what is in its journal, which SQLite finds by the name."""
    if not (folder / FILE).exists():
        return None
    number = 1
    while (kept := folder / f"{FILE}.before-restore-{number}").exists():
        number += 1
    journal = folder / f"{FILE}-wal"
    if journal.exists():
        journal.rename(kept.with_name(f"{kept.name}-wal"))
    (folder / f"{FILE}-shm").unlink(missing_ok=True)
    (folder / FILE).rename(kept)
    return kept


def _new(target: Path) -> apsw.Connection:
    return apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
