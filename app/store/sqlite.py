"""Opens the store's SQLite file so that a commit is durable when it returns.

A rollback journal, not WAL: the versions that Python brings may still have the WAL-reset defect, and a
rollback journal with ``synchronous=EXTRA`` (which also syncs the directory after the journal is
removed) survives a power cut at any moment (reliability 5.5).
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import StaticPool

from app.errors import SetupError
from app.log.lock_file import keep_private
from app.store import schema
from app.store.files import SoleUse

_SETTING = "store.path"
LOCK_WAIT = 5_000  # milliseconds; another process is reading a backup, say
_PATIENCE = 30.0  # seconds that a backup waits for those who write

_log = logging.getLogger("skybridge.store")


def open_engine(path: Path, sole_use: SoleUse | None = None) -> Engine:
    """One connection, made by the first caller's thread and to be used on that thread only.
    Raises SetupError for a file that cannot be used, that another process has for itself (``sole_use``),
    or whose schema a newer release wrote."""
    engine = create_engine(f"sqlite:///{path}", poolclass=StaticPool, hide_parameters=True)
    event.listen(engine, "connect", _make_durable)
    event.listen(engine, "begin", _begin)
    with ExitStack() as undoing:
        undoing.callback(engine.dispose)
        try:
            keep_private(path, _log)
            if sole_use is not None:
                undoing.callback(sole_use.release)
                sole_use.take()
            _bring_up(engine, path)
        except (OSError, DatabaseError) as error:
            cause = error.orig if isinstance(error, DatabaseError) else error.strerror
            raise SetupError(
                f"the store {path} cannot be used: {cause}",
                setting=_SETTING,
                cure="name a store file of Skybridge, or a new file, in a folder that this user may write to",
            ) from error
        undoing.pop_all()
    return engine


def _bring_up(engine: Engine, path: Path) -> None:
    """An older schema is brought to ours, with a copy of the file as it was beside it."""
    with engine.begin() as connection:
        revision = schema.found(connection)
        schema.demand_known(revision, str(path), _SETTING)
        if revision not in {None, schema.HEAD}:
            kept = path.with_name(f"{path.name}.before-{schema.HEAD}")
            copy(path, kept)
            _log.warning("%s is upgraded to schema %s; the old file is %s", path, schema.HEAD, kept)
        schema.bring_up(connection, revision)


def copy(source: Path, target: Path) -> None:
    """A copy of the database that is whole: writers wait meanwhile. Through SQLite,
    because what is in its journal belongs to it. ``target`` becomes it in one step, or not at all."""
    keep_private(target, _log)
    reading = sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True, timeout=_PATIENCE)
    with closing(reading), closing(sqlite3.connect(target, timeout=_PATIENCE)) as writing:
        reading.backup(writing)


def _make_durable(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # we begin ourselves: the driver would only do so at a write
    for pragma in (
        "journal_mode=DELETE",
        "synchronous=EXTRA",
        f"busy_timeout={LOCK_WAIT}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    """As a writer from the start: what was read in a transaction is still so when it writes."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")
