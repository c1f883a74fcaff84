"""Back up a log into one file while its service writes to it, and restore the log from such a file."""

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

PAGES = 2_048  # pages that are copied between two reports of the progress
FENCE = 1 << 20
"""The number that a restore adds to the generation of every group. It is higher than any number of generations
since the backup, so that the store accepts the new owners' writes."""
_PART = "restoring"

_log = logging.getLogger(__name__)


def back_up(folder: Path, target: Path, report: Callable[[int, int], None]) -> None:
    """Copy the log as of one moment to ``target``. The copy has all records that were acknowledged before the call.

    No append waits for the copy, but the log's file cannot shrink meanwhile.

    Args:
        folder: the folder of the log.
        target: the new file.
        report: is called with the number of copied pages and of all pages.

    Raises:
        OSError: a file cannot be read or written.
        apsw.Error: SQLite failed.
    """
    with closing(open_reader(folder, None)) as reading, closing(_new(target)) as writing:
        reading.execute("BEGIN")  # a snapshot: without it, each write would restart the copy
        reading.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        with writing.backup("main", reading, "main") as copying:
            while not copying.done:
                copying.step(PAGES)
                report(copying.page_count - copying.remaining, copying.page_count)
        writing.pragma("journal_mode", "delete")  # one file


def restore(folder: Path, source: Path, setting: str) -> Path | None:
    """Replace the log by a backup. Return the new path of the previous log, or None if there was none.

    Raises:
        SetupError: a service has the log open, or ``source`` is not a complete log.
    """
    require_complete(source)
    lock = FolderLock(folder, setting)
    lock.acquire()
    try:
        part = folder / _PART
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700)
        _copy_with_higher_generations(source, part, setting)
        kept = _set_aside(folder)
        (part / FILE).rename(folder / FILE)
        _sync(folder)
        shutil.rmtree(part)
    finally:
        lock.release()
    return kept


def require_complete(source: Path) -> None:
    """Raise SetupError if the file is not a complete log."""
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


def _copy_with_higher_generations(source: Path, folder: Path, setting: str) -> None:
    """Copy the backup into ``folder`` and raise its generations.

    This happens in a separate folder, so that a log with too low generations is never at the log's place."""
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
    """Rename the present log with its write-ahead log, and return the new path; None if there is no log."""
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
