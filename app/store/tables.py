"""The tables of the store. A change here needs a migration (``migrations``)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy import text as sa_text
from sqlalchemy.types import TypeEngine

metadata = MetaData()

# Alembic's table of the schema's revision.
alembic_version = Table(
    "alembic_version",
    metadata,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)

# Read by releases before Alembic, which refuse a number that they do not know.
skybridge_schema = Table(
    "skybridge_schema",
    metadata,
    Column("version", Integer, nullable=False),
)

# PostgreSQL counts in BIGINT. SQLite generates ids only in a column of type INTEGER.
_Id = BigInteger().with_variant(Integer, "sqlite")


def _id() -> Column[int]:
    """Return the id column, in the order of writing.

    No id is used twice (``sqlite_autoincrement``), so a repeated write cannot hit another row."""
    return Column("id", _Id, primary_key=True, autoincrement=True)


def _filled(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    """Return columns that are never NULL."""
    return [Column(name, kind, nullable=False) for name in names]


def _message() -> tuple[Column[object], ...]:
    """Return the columns of a message, byte for byte, and of its event's names.

    Key and body may be NULL, which differs from empty. Headers are MessagePack of ordered (name, value or nil)
    pairs, because names may repeat. The content type is bytes, because text columns cannot hold every character."""
    return (
        *_filled(Text, "subscription", "broker", "topic"),
        Column("partition", Integer, nullable=False),
        Column("position", Text, nullable=False),
        *_filled(BigInteger, "offset", "epoch", "time_ms"),
        Column("lane", LargeBinary, nullable=False),
        Column("key", LargeBinary),
        Column("headers", LargeBinary, nullable=False),
        Column("body", LargeBinary),
        Column("content_type", LargeBinary),
        *_filled(Text, "event_id", "event_source", "event_type"),
    )


def _properties() -> Column[bytes]:
    """Return the column for the message id, time and typed headers that some brokers have, as MessagePack.

    It is NULL for a message without any. It is the last column, because a migration added it."""
    return Column("properties", LargeBinary)


ONCE = ("subscription", "broker", "topic", "partition", "position")
"""The columns that identify a message."""


def _once() -> UniqueConstraint:
    """Return the constraint that stores a message only once, even if the message is delivered again after a crash."""
    return UniqueConstraint(*ONCE)


dead_letters = Table(
    "dead_letters",
    metadata,
    _id(),
    *_message(),
    *_filled(Text, "cause", "detail"),
    Column("attempts", Integer, nullable=False),
    Column("status", Integer),
    Column("at_ms", BigInteger, nullable=False),
    _properties(),
    _once(),
    Index("dead_letters_by_event", "event_id"),  # see HASHED
    Index("dead_letters_by_cause", "subscription", "cause", "at_ms"),  # counted without its rows
    sqlite_autoincrement=True,
)

parked = Table(
    "parked",
    metadata,
    _id(),
    *_message(),
    Column("redriven", Boolean, nullable=False),
    *_filled(Integer, "steps", "attempts"),
    Column("due_ms", BigInteger, nullable=False),
    *_filled(Text, "cause", "detail"),
    Column("at_ms", BigInteger, nullable=False),
    _properties(),
    Column("letter", BigInteger, nullable=False, server_default="0"),
    _once(),
    Index(
        "parked_by_lane",
        *("subscription", "broker", "topic", "partition", "lane", "redriven", "offset"),
    ),
    Index("parked_by_event", "event_id"),  # see HASHED
    Index("parked_count", "subscription", "lane", "at_ms", "redriven"),  # counted without its rows
    Index("parked_by_due", "subscription", "redriven", "due_ms"),
    Index(
        "parked_redriven",
        *("subscription", "lane", "letter"),
        sqlite_where=sa_text("redriven = 1"),
    ),
    sqlite_autoincrement=True,
)

pulled = Table(
    "pulled",
    metadata,
    _id(),
    *_message(),
    Column("deliveries", Integer, nullable=False),
    Column("token", Text, nullable=False),
    *_filled(BigInteger, "locked_until_ms", "at_ms"),
    _properties(),
    Column("consumer", Text, nullable=False, server_default=""),
    _once(),
    Index("pulled_by_lane", "subscription", "lane", "id"),
    Index("pulled_by_token", "token"),
    sqlite_autoincrement=True,
)

attempts = Table(
    "attempts",
    metadata,
    _id(),
    *_filled(Text, "subscription", "topic"),
    Column("partition", Integer, nullable=False),
    *_filled(Text, "position", "event_id", "event_source", "event_type"),
    Column("number", Integer, nullable=False),
    Column("started_ms", BigInteger, nullable=False, index=True),
    Column("duration_ms", Float, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("status", Integer),
    Column("detail", Text, nullable=False),
    Column("next_try_in", Float),
    Column("together", Integer, nullable=False, server_default="1"),
    Column("exchange", LargeBinary),  # MessagePack of interfaces.HttpExchange
    Index("attempts_by_event", "event_id"),
    Index("attempts_by_subscription", "subscription", "id"),
    Index("attempts_by_outcome", "subscription", "outcome", "id"),  # the last success is replaced
    sqlite_autoincrement=True,
)

# Subscriptions that the API made. The document is JSON, its credentials encrypted.
subscriptions = Table(
    "subscriptions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("document", LargeBinary, nullable=False),
    *_filled(BigInteger, "created_ms", "updated_ms"),
    Column("owner", Text, nullable=False, server_default=""),
)

# Why a subscription delivers nothing: paused by an operator, or disabled by its target's 410.
halts = Table(
    "halts",
    metadata,
    Column("subscription", Text, primary_key=True),
    *_filled(Text, "kind", "cause"),
    Column("since_ms", BigInteger, nullable=False),
)

# Commands of the API for the worker that runs the subscription.
commands = Table(
    "commands",
    metadata,
    _id(),
    Column("subscription", Text, nullable=False, index=True),
    Column("kind", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("asked_ms", BigInteger, nullable=False),
    Column("taken_ms", BigInteger),
    Column("answer", LargeBinary),
    sqlite_autoincrement=True,
)

# Addresses at which webhooks may consent later, by a digest of their key. ``called_ms`` is the time of the consent.
consents = Table(
    "consents",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("subscription", Text, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    Column("called_ms", BigInteger),
    Column("rate", Text),
)

replays = Table(
    "replays",
    metadata,
    _id(),
    Column("subscription", Text, nullable=False, index=True),
    *_filled(Text, "broker", "topic"),
    Column("partition", Integer, nullable=False),
    *_filled(Text, "next", "until"),
    Column("rate", Float, nullable=False),
    *_filled(BigInteger, "asked_ms", "done"),
    sqlite_autoincrement=True,
)

# One row: its number grows with every change that workers have to apply.
revision = Table(
    "revision",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
)

# The owner of each partition: a write with another epoch is refused. ``number`` is the highest number
# of its parked rows so far. It never falls, even after those rows are deleted.
owners = Table(
    "owners",
    metadata,
    Column("subscription", Text, primary_key=True),
    Column("broker", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    *_filled(BigInteger, "epoch", "number"),
)

# The position of each group in each stream, and the floor of each shared group: the lowest unfinished offset, the finished runs above it as
# text, and the owner's epoch, which fences the writes of others.
stream_offsets = Table(
    "stream_offsets",
    metadata,
    Column("broker", Text, primary_key=True),
    Column("group", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    *_filled(BigInteger, "epoch", "offset"),
    Column("finished", Text, nullable=False),
)

# The position of each subscription in each partition that it reads through a shared group (``shared``), as a group of
# its own would have it. ``apart`` is false while the floor of the partition holds for it too: that is the offset of the
# shared group in ``stream_offsets``.
progress = Table(
    "progress",
    metadata,
    Column("broker", Text, primary_key=True),
    Column("group", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("shared", Text, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("finished", Text, nullable=False),
    Column("apart", Boolean, nullable=False),
    Index("progress_by_partition", "broker", "shared", "topic", "partition"),
)

# The uses of the admin listener. ``status`` is NULL until the answer is known.
audit = Table(
    "audit",
    metadata,
    _id(),
    Column("kind", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    *_filled(Text, "who", "address", "operation", "target"),
    Column("status", Integer),
    Column("detail", Text, nullable=False),
    Column("count", Integer, nullable=False, server_default="1"),
    Column("last_ms", BigInteger),
    Column("alike", Text),
    Index("audit_by_kind", "kind", "id"),
    Index("audit_by_alike", "alike"),
    sqlite_autoincrement=True,
)

# What each process last found that needs a person. ``beat`` grows with each report.
alert_reports = Table(
    "alert_reports",
    metadata,
    Column("process", Text, primary_key=True),
    Column("beat", BigInteger, nullable=False),
    Column("document", LargeBinary, nullable=False),
)

# One row: the process that sends the alerts of the installation, and what it has sent. ``beat`` grows while it works.
alert_sender = Table(
    "alert_sender",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("process", Text, nullable=False),
    Column("beat", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),
)

HASHED = [
    index
    for table in (dead_letters, parked)
    for index in table.indexes
    if index.name == f"{table.name}_by_event"
]
"""Indexes that are hashes on PostgreSQL, whose trees hold no long ids.

The option is set where a schema is created. Set here, it would import that dialect into every process."""
(OF_REDRIVEN,) = [index for index in parked.indexes if index.name == "parked_redriven"]
"""The index that covers redriven rows only, on PostgreSQL too."""
