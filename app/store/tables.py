"""Every table of the store. A change here raises ``SCHEMA_VERSION`` and brings its migration."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    func,
)

SCHEMA_VERSION = 1

metadata = MetaData()

schema_version = Table(
    "skybridge_schema",
    metadata,
    Column("version", Integer, nullable=False),
)

# A dead letter with its record byte for byte: key and body may be NULL, which is not empty; headers
# are MessagePack of ordered (name, value or nil) pairs, because names may repeat.
dead_letters = Table(
    "dead_letters",
    metadata,
    Column("id", Integer, primary_key=True),  # in order of writing
    Column("subscription", Text, nullable=False, index=True),
    Column("broker", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("position", Text, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("time_ms", BigInteger, nullable=False),
    Column("key", LargeBinary),
    Column("headers", LargeBinary, nullable=False),
    Column("body", LargeBinary),
    Column("content_type", Text),
    Column("cause", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("status", Integer),
    Column("at_ms", BigInteger, nullable=False),
    # Rule 5 of delivery: a message delivered again after a crash cannot be buried twice.
    UniqueConstraint("subscription", "broker", "topic", "partition", "position"),
)

disabled_subscriptions = Table(
    "disabled_subscriptions",
    metadata,
    Column("subscription", Text, primary_key=True),
    Column("cause", Text, nullable=False),
    Column("since", Text, nullable=False, server_default=func.current_timestamp()),
)

# The newest owner of each partition. A write under an older epoch is refused (rule 5).
owners = Table(
    "owners",
    metadata,
    Column("subscription", Text, primary_key=True),
    Column("broker", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
)
