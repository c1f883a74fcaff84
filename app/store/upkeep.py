"""Commands of an operator on a store: status, upgrade, backup and restore."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from app.errors import SetupError
from app.store import schema, sqlite
from app.store.files import SoleUse
from app.store.tables import metadata

_OF_NO_ROWS = {"alembic_version", "skybridge_schema", "revision"}
_SETTING = "store.path"


class StoreStatus(msgspec.Struct, frozen=True):
    """The status of a store.

    ``revision`` is that of its schema, or "" for a store that does not exist yet. ``known`` is the revision of this
    release. ``rows`` counts the rows by table."""

    place: str
    revision: str
    known: str
    rows: dict[str, int]


def look_at_file(path: Path) -> StoreStatus:
    """Return the status of an SQLite store without changing it. Raise SetupError if the file is not a store."""
    if not path.exists():
        return StoreStatus(str(path), "", schema.HEAD, {})
    return _look(sa.create_engine("sqlite://", creator=lambda: _reading(path)), str(path), _SETTING)


def look_at_database(dsn: str, timeout: float) -> StoreStatus:
    """Return the status of a PostgreSQL store. Raise SetupError if it cannot be read."""
    from app.store import postgresql  # noqa: PLC0415 - its client is heavy, and few need it

    engine = postgresql.engine_of(dsn, timeout)
    return _look(engine, postgresql.name_of(dsn), postgresql.SETTING)


def back_up(path: Path, target: Path) -> None:
    """Copy an SQLite store, also while services use it; their writes wait. ``target`` is complete or does not
    exist."""
    if not path.exists():
        raise SetupError(
            f"the store {path} does not exist", setting=_SETTING, cure="name an existing store"
        )
    if target.exists():
        raise SetupError(f"{target} exists already", cure="name a new file")
    part = target.with_name(f"{target.name}.part")
    part.unlink(missing_ok=True)
    try:
        sqlite.copy(path, part)
        _require_complete(part)
        part.rename(target)
    except (sqlite3.Error, OSError) as error:
        raise SetupError(
            f"{path} could not be copied to {target}: {error}",
            cure="check the free space, and that this user may write there",
        ) from error
    finally:
        part.unlink(missing_ok=True)


def restore(path: Path, source: Path) -> Path | None:
    """Replace an SQLite store by a backup. Return the new path of the previous store, or None if there was none.

    Raises:
        SetupError: a process with workers uses the store, or ``source`` is not a complete store.
    """
    demand_restorable(source)
    path.parent.mkdir(parents=True, exist_ok=True)
    alone = SoleUse(path)
    alone.take()
    try:
        kept = _set_aside(path)
        sqlite.copy(source, path)
    finally:
        alone.release()
    return kept


def demand_restorable(source: Path) -> None:
    """Raise SetupError unless the file is a complete store of a schema that this release knows."""
    _require_complete(source)
    found = look_at_file(source)
    schema.demand_known(found.revision or None, str(source), "")
    if not found.revision:
        raise SetupError(f"{source} is not a store", cure="name a file made by store backup")


def _set_aside(path: Path) -> Path | None:
    if not path.exists():
        return None
    number = 1
    while (kept := path.with_name(f"{path.name}.before-restore-{number}")).exists():
        number += 1
    sqlite.copy(path, kept)
    return kept


def _look(engine: sa.Engine, place: str, setting: str) -> StoreStatus:
    try:
        with engine.connect() as connection:
            revision = schema.found(connection)
            there = set(sa.inspect(connection).get_table_names())
            rows = {
                table.name: connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
                for table in metadata.sorted_tables
                if table.name in there - _OF_NO_ROWS
            }
    except DBAPIError as error:
        raise SetupError(
            f"the store {place} cannot be read: {' '.join(str(error.orig).split())}",
            setting=setting,
            cure="check that it is a store, that its server runs, and that this user may read it",
        ) from None
    finally:
        engine.dispose()
    return StoreStatus(place, revision or "", schema.HEAD, rows)


def _require_complete(path: Path) -> None:
    try:
        with closing(_reading(path)) as connection:
            (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.Error as error:
        verdict = str(error)
    if verdict != "ok":
        raise SetupError(f"{path} is not a complete store: {verdict}", cure="take another backup")


def _reading(path: Path) -> sqlite3.Connection:
    """Open the file without creating it. With write access, SQLite undoes an unfinished transaction of a killed
    process."""
    mode = "rw" if os.access(path, os.W_OK) else "ro"
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True)
