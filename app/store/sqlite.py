"""Open the SQLite file of the store, so that a commit is durable when it returns.

A rollback journal is used, not WAL, because Python's SQLite may still have the WAL-reset defect. A rollback journal
with ``synchronous=EXTRA`` survives a power cut at any moment. EXTRA also syncs the directory after the journal is
deleted."""

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
LOCK_WAIT = 5_000  # ms to wait for a lock, such as that of a backup in another process
_PATIENCE = 30.0  # seconds that a backup waits for writers

_log = logging.getLogger("skybridge.store")


def open_engine(path: Path, sole_use: SoleUse | None = None) -> Engine:
    """Return an engine with one connection, for use on the calling thread only.

    Raises:
        SetupError: the file cannot be used, another process has the sole use, or a newer release wrote the schema.
    """
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
    """Upgrade an older schema, after a copy of the file was made in the same folder."""
    with engine.begin() as connection:
        revision = schema.found(connection)
        schema.demand_known(revision, str(path), _SETTING)
        if revision not in {None, schema.HEAD}:
            kept = path.with_name(f"{path.name}.before-{schema.HEAD}")
            copy(path, kept)
            _log.warning("%s is upgraded to schema %s; the old file is %s", path, schema.HEAD, kept)
        schema.bring_up(connection, revision)


def copy(source: Path, target: Path) -> None:
    """Copy a database completely while writers wait. The target changes in one step, or not at all.

    SQLite makes the copy, because the content of its journal is part of the database."""
    keep_private(target, _log)
    reading = sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True, timeout=_PATIENCE)
    with closing(reading), closing(sqlite3.connect(target, timeout=_PATIENCE)) as writing:
        reading.backup(writing)


def _make_durable(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # ``_begin`` begins: the driver would do so only at a write
    for pragma in (
        "journal_mode=DELETE",
        "synchronous=EXTRA",
        f"busy_timeout={LOCK_WAIT}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    """Begin as a writer, so that rows that a transaction has read do not change before it writes."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")
