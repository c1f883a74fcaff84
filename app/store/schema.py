"""The schema revision of a database, and its upgrade to the one of this release.

An older schema is upgraded by Alembic's revisions (``migrations``). A newer one is refused, because this release
does not know it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.schema import ExecutableDDLElement

from app.errors import SetupError
from app.store.tables import HASHED, OF_REDRIVEN, alembic_version, metadata, skybridge_schema

HEAD = "0012"
KNOWN = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
    "0010",
    "0011",
    HEAD,
)
REFUSED_BY_OLD = 3  # in ``skybridge_schema``
FIRST_RELEASE = "0000"  # tables of a release before Alembic, whatever their number

_log = logging.getLogger("skybridge.store")


def found(connection: Connection) -> str | None:
    """Return the revision of a database, or None if it has no tables of a store."""
    tables = set(sa.inspect(connection).get_table_names())
    if "alembic_version" in tables:
        number: str | None = connection.scalar(sa.select(alembic_version.c.version_num))
        return number
    return FIRST_RELEASE if "skybridge_schema" in tables else None


def demand_known(revision: str | None, name: str, setting: str) -> None:
    """Raise SetupError if the schema is of a newer release."""
    if revision not in (None, FIRST_RELEASE, *KNOWN):
        raise SetupError(
            f"{name} was written by a newer release (schema {revision}, known {HEAD})",
            setting=setting,
            cure="run that release, or restore the backup made before it",
        )


def bring_up(connection: Connection, revision: str | None) -> None:
    """Upgrade the schema from ``revision`` to the one of this release, in the current transaction."""
    if revision is None:
        _make(connection)
    elif revision != HEAD:
        migrate(connection, HEAD)


def _make(connection: Connection) -> None:
    """Create the schema of this release. A test compares it with the result of all revisions."""
    for statement in statements(connection.dialect.name):
        connection.exec_driver_sql(statement)
    connection.execute(sa.insert(skybridge_schema).values(version=REFUSED_BY_OLD))
    connection.execute(sa.insert(alembic_version).values(version_num=HEAD))


@cache
def statements(dialect: str) -> Sequence[str]:
    """Return the SQL that creates all tables and indexes, compiled once in a process.

    Args:
        dialect: The name of a dialect of SQLAlchemy, such as ``sqlite``.
    """
    if dialect == "postgresql":
        for index in HASHED:
            index.dialect_options["postgresql"]["using"] = "hash"
        OF_REDRIVEN.dialect_options["postgresql"]["where"] = sa.text("redriven")
    found: list[str] = []

    def note(element: ExecutableDDLElement, *_: object, **__: object) -> None:
        found.append(str(element.compile(dialect=engine.dialect)))

    engine = sa.create_mock_engine(f"{dialect}://", note)
    metadata.create_all(engine, checkfirst=False)
    return found


def migrate(connection: Connection, revision: str) -> None:
    """Upgrade the schema to this revision with Alembic."""
    from alembic import command  # noqa: PLC0415 - heavy, and most starts do not need it
    from alembic.config import Config  # noqa: PLC0415

    logging.getLogger("alembic").setLevel(logging.WARNING)
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    command.upgrade(config, revision)
