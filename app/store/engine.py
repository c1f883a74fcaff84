"""Opens the store's database so that a commit is durable when it returns.

SQLite with its rollback journal, not WAL: the versions that Python brings may still have the
WAL-reset defect, and a rollback journal with ``synchronous=EXTRA`` (which also syncs the directory
after the journal is removed) survives a power cut at any moment (reliability 5.5).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, insert, select
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import StaticPool

from app.errors import SetupError
from app.store.tables import SCHEMA_VERSION, metadata, schema_version

_SETTING = "store.path"
LOCK_WAIT = 5_000  # milliseconds; another process is reading a backup, say


def open_engine(path: Path) -> Engine:
    """One connection, made by the first caller's thread and to be used on that thread only.
    Raises SetupError for a file that cannot be used, or a schema that a newer release wrote."""
    engine = create_engine(f"sqlite:///{path}", poolclass=StaticPool)
    event.listen(engine, "connect", _make_durable)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _bring_up(engine, path)
    except (OSError, DatabaseError) as error:
        engine.dispose()
        cause = error.orig if isinstance(error, DatabaseError) else error.strerror
        raise SetupError(
            f"the store {path} cannot be used: {cause}",
            setting=_SETTING,
            cure="name a file of ours, or a new one, in a folder that this user may write to",
        ) from error
    return engine


def _make_durable(connection: Any, _record: object) -> None:
    for pragma in (
        "journal_mode=DELETE",
        "synchronous=EXTRA",
        f"busy_timeout={LOCK_WAIT}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _bring_up(engine: Engine, path: Path) -> None:
    with engine.begin() as connection:
        schema_version.create(connection, checkfirst=True)
        found = connection.scalar(select(schema_version.c.version))
        if found is not None and found > SCHEMA_VERSION:
            raise SetupError(
                f"{path} was written by a newer release (schema {found}, known {SCHEMA_VERSION})",
                setting=_SETTING,
                cure="run that release, or restore the backup made before it",
            )
        metadata.create_all(connection)
        if found is None:
            connection.execute(insert(schema_version).values(version=SCHEMA_VERSION))
