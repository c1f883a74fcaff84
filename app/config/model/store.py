"""The settings of the store: a SQLite file for one process or a PostgreSQL database for many, what
it keeps, and its key.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from app.model.duration import Count, Duration, Size
from app.model.route import Strict
from app.model.secret import FileSecret, Secret


def _fits(secret: FileSecret) -> FileSecret:
    """Check the key of the store. The message does not repeat it."""
    from app.store.encryption import is_key  # noqa: PLC0415 - imports the database drivers

    if not is_key(secret.get_secret_value()):
        raise ValueError(
            "The value is not an encryption key for the store. Cure: Make a key with skybridge secret --kind store."
        )
    return secret


StoreKey = Annotated[Secret, AfterValidator(_fits)]


class Encryption(Strict):
    """Encryption of the credentials of subscriptions that the API creates."""

    key: StoreKey = Field(
        description='key made by skybridge secret --kind store; best "${file:/path}". If it is '
        "lost, the stored credentials are lost"
    )
    previous: StoreKey | None = Field(
        None,
        description="the previous key: the next start decrypts with it and encrypts with the "
        "new key",
    )


class KeptAttempts(Strict):
    """Attempts to deliver, as rows of the store. Rows deleted by a limit are counted."""

    keep: Literal["failures", "all"] = Field(
        "failures",
        description="failures, and the last success of each subscription; or all, a row an attempt",
    )
    retention: Annotated[Duration, Field(gt=0)] = Field(
        "7d", validate_default=True, description="older attempts are deleted"
    )
    max_rows: Annotated[Count, Field(ge=1)] = Field(
        1_000_000, description="most rows; beyond, the oldest are deleted"
    )
    bodies: Annotated[Size, Field(ge=0, le=64 << 10)] = Field(
        "4KiB",
        validate_default=True,
        description="bytes of the request body and of the answer body that are kept of an attempt; 0 for none",
    )


def _is_dsn(secret: FileSecret) -> FileSecret:
    """Check a PostgreSQL connection string. The message does not repeat it, because it has a
    password.
    """
    from psycopg import ProgrammingError  # noqa: PLC0415 - heavy, and few installations need it
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        conninfo_to_dict(secret.get_secret_value())
    except ProgrammingError:
        raise ValueError(
            "The value is not a PostgreSQL connection string. "
            "Cure: Write it as postgresql://user:password@host:5432/database."
        ) from None
    return secret


Dsn = Annotated[Secret, AfterValidator(_is_dsn)]


class KeptDeadLetters(Strict):
    """Dead letters, which stay until an operator redrives or discards them."""

    max_rows: Annotated[Count, Field(ge=1)] = Field(
        1_000_000,
        description="most dead letters; beyond, the next one waits unfinished, and its key with it",
    )


class KeptAudit(Strict):
    """The number of audit entries to keep, by kind. Above it the oldest of that kind are deleted,
    about a hundred at a time.
    """

    change: Annotated[Count, Field(ge=1)] = Field(
        100_000, description="changes by operators, reloads included"
    )
    look: Annotated[Count, Field(ge=1)] = Field(100_000, description="looks at event data")
    refusal: Annotated[Count, Field(ge=1)] = Field(
        10_000, description="requests refused because their token lacks the scope"
    )


class _Kept(Strict):
    attempts: KeptAttempts = Field(KeptAttempts(), description="the log of delivery attempts")
    dead_letters: KeptDeadLetters = Field(
        KeptDeadLetters(), description="events that were given up"
    )
    audit: KeptAudit = Field(KeptAudit(), description="the record of who operated the service")
    encryption: Encryption | None = Field(
        None,
        description="encrypts credentials in the store; without it the API refuses "
        "subscriptions with credentials",
    )


class SqliteStore(_Kept):
    """A SQLite file, for one process that runs workers."""

    kind: Literal["sqlite"] = Field(description="sqlite")
    path: Path = Field(description="file of the store")


class PostgresStore(_Kept):
    """A PostgreSQL database, which any number of processes share."""

    kind: Literal["postgresql"] = Field(description="postgresql")
    dsn: Dsn = Field(
        description='connection string, best "${env:NAME}" or "${file:/path}"; the user may create '
        "tables in the database"
    )


Store = Annotated[SqliteStore | PostgresStore, Field(discriminator="kind")]
