"""The settings of the store: a file for one process, or a database for many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from app.config.encryption import Encryption
from app.config.kept_attempts import KeptAttempts
from app.model.duration import Count
from app.model.route import Strict
from app.model.secret import FileSecret, Secret


def _is_dsn(secret: FileSecret) -> FileSecret:
    """The message never repeats it: it holds a password."""
    from psycopg import ProgrammingError  # noqa: PLC0415 - heavy, and few need it
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        conninfo_to_dict(secret.get_secret_value())
    except ProgrammingError:
        raise ValueError(
            "is no PostgreSQL connection string: postgresql://user:password@host:5432/database"
        ) from None
    return secret


Dsn = Annotated[Secret, AfterValidator(_is_dsn)]


class KeptDeadLetters(Strict):
    """Dead letters stay until somebody redrives or discards them."""

    max_rows: Annotated[Count, Field(ge=1)] = Field(
        1_000_000,
        description="most dead letters; beyond, the next one waits unfinished, and its key with it",
    )


class _Kept(Strict):
    attempts: KeptAttempts = Field(KeptAttempts(), description="the log of delivery attempts")
    dead_letters: KeptDeadLetters = Field(
        KeptDeadLetters(), description="events that were given up"
    )
    encryption: Encryption | None = Field(
        None,
        description="encrypts credentials in the store; without it the API refuses "
        "subscriptions with credentials",
    )


class SqliteStore(_Kept):
    """One SQLite file: for one process that runs workers."""

    kind: Literal["sqlite"] = Field(description="sqlite")
    path: Path = Field(description="file of the store")


class PostgresStore(_Kept):
    """A PostgreSQL database: for any number of processes, which share it."""

    kind: Literal["postgresql"] = Field(description="postgresql")
    dsn: Dsn = Field(
        description='connection string, best "${env:NAME}" or "${file:/path}"; the user may create '
        "tables in the database"
    )


Store = Annotated[SqliteStore | PostgresStore, Field(discriminator="kind")]
