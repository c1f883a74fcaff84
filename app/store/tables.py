"""Every table of the store. A change here brings its migration (``migrations``)."""

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

# Alembic's own: which revision this is.
alembic_version = Table(
    "alembic_version",
    metadata,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)

# What releases before Alembic look at: they refuse a number that they do not know.
skybridge_schema = Table(
    "skybridge_schema",
    metadata,
    Column("version", Integer, nullable=False),
)

# PostgreSQL counts in BIGINT; SQLite counts by itself in a column that is called INTEGER and nothing else.
_Id = BigInteger().with_variant(Integer, "sqlite")


def _id() -> Column[int]:
    """In order of writing. No number is used twice (``sqlite_autoincrement``): a write that is repeated
    must not mean another row."""
    return Column("id", _Id, primary_key=True, autoincrement=True)


def _filled(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    """Columns that are never NULL."""
    return [Column(name, kind, nullable=False) for name in names]


def _message() -> tuple[Column[object], ...]:
    """A message byte for byte, and the event in it: key and body may be NULL, which is not empty; headers
    are MessagePack of ordered (name, value or nil) pairs, because names may repeat; the content type is
    bytes, because columns of text do not hold every character."""
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
    """MessagePack of what few brokers have beside key, headers and body: message id, time, typed values of
    headers. The last column, where its migration put it; NULL for none of them."""
    return Column("properties", LargeBinary)


ONCE = ("subscription", "broker", "topic", "partition", "position")
"""Columns that a message is known by."""


def _once() -> UniqueConstraint:
    """Rule 5 of delivery: a message delivered again after a crash cannot be kept twice."""
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
)

# Why a subscription delivers nothing: paused by a person, or disabled by its target's 410.
halts = Table(
    "halts",
    metadata,
    Column("subscription", Text, primary_key=True),
    *_filled(Text, "kind", "cause"),
    Column("since_ms", BigInteger, nullable=False),
)

# What the API asks of the worker that runs the subscription.
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

# Addresses at which webhooks may consent later, by a digest of their key. ``called_ms``: when one did.
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

# One row: grows with every change that workers are to take up.
revision = Table(
    "revision",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
)

# The present owner of each partition: a write under another epoch is refused (rule 5). ``number``: the
# greatest that a parked row of it ever had; it never falls, also when those rows are gone.
owners = Table(
    "owners",
    metadata,
    Column("subscription", Text, primary_key=True),
    Column("broker", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    *_filled(BigInteger, "epoch", "number"),
)

# How far each group is in each stream: the lowest unfinished offset, the finished runs above it as text,
# and the present owner, whose epoch fences the writes of others (rules 2 and 5).
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

# The uses of the admin listener. ``status``: NULL until the answer is known.
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

HASHED = [
    index
    for table in (dead_letters, parked)
    for index in table.indexes
    if index.name == f"{table.name}_by_event"
]
"""Hashes on PostgreSQL, whose trees hold no long ids. Said where a schema is made: said with the index, it imports
that dialect into every process."""
(OF_REDRIVEN,) = [index for index in parked.indexes if index.name == "parked_redriven"]
"""It has these rows alone, on PostgreSQL too."""
