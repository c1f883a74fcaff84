"""Add parked and pulled messages, attempts, subscriptions of the API, and commands for workers.

Dead letters get the ordering key (``lane``) and the names of their events. Owners get the time since when they own.
Disabled subscriptions become halts."""

from __future__ import annotations

from calendar import timegm
from collections.abc import Iterator
from hashlib import sha256
from time import strptime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_REFUSED = 3  # a number in ``skybridge_schema`` that releases before Alembic refuse
_PAGE = 500  # rows read at a time
LONGEST_LANE = 1_000  # bytes; a longer lane is stored as its digest

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _set_aside("dead_letters", "owners")
    _make_tables()
    _take_over_letters()
    _take_over_owners()
    _take_over_halts()
    for gone in ("old_dead_letters", "old_owners", "disabled_subscriptions"):
        op.drop_table(gone)
    op.execute("DELETE FROM skybridge_schema")
    op.execute(f"INSERT INTO skybridge_schema (version) VALUES ({_REFUSED})")  # noqa: S608


def _set_aside(*tables: str) -> None:
    """Copy the old tables. A renamed table would keep the names of constraints that the new one needs."""
    for table in tables:
        op.execute(f"CREATE TABLE old_{table} AS SELECT * FROM {table}")  # noqa: S608
        op.drop_table(table)


def _take_over_letters() -> None:
    """Copy the dead letters in the order of writing, with their ids."""
    letters = _table("dead_letters")
    for page in _pages("old_dead_letters"):
        rows = [{**row, **_added(row)} for row in page]
        op.get_bind().execute(sa.insert(letters), rows)
    _count_on("dead_letters")


def _added(row: sa.RowMapping) -> dict[str, Any]:
    """Return the new columns of a dead letter. The ordering key (``lane``) is made of the record's key. The event
    is unknown."""
    content_type = row["content_type"]
    return {
        "content_type": None if content_type is None else content_type.encode(),
        "lane": _lane(row),
        "event_id": "",
        "event_source": "",
        "event_type": "",
    }


def _lane(row: sa.RowMapping) -> bytes:
    """Return the lane id as ``delivery.lane_id`` computed it at this revision."""
    topic = row["topic"].encode()
    place = b"%d:%d:%s:" % (row["partition"], len(topic), topic)
    if row["key"] is None:
        return b"o" + place + b"%d" % row["offset"]
    lane = b"k" + place + bytes(row["key"])
    return lane if len(lane) <= LONGEST_LANE else b"d" + sha256(lane).digest()


def _take_over_owners() -> None:
    """Copy the owners. The time since when they own is unknown, so it stays empty until the next change of owner."""
    names = "subscription, broker, topic, partition, epoch"
    op.execute(f"INSERT INTO owners ({names}, since_ms) SELECT {names}, 0 FROM old_owners")  # noqa: S608


def _take_over_halts() -> None:
    bind = op.get_bind()
    found = bind.execute(sa.text("SELECT subscription, cause, since FROM disabled_subscriptions"))
    rows = [
        {
            "subscription": subscription,
            "kind": "disabled",
            "cause": cause,
            "since_ms": timegm(strptime(since, "%Y-%m-%d %H:%M:%S")) * 1000,
        }
        for subscription, cause, since in found
    ]
    if rows:
        bind.execute(sa.insert(_table("halts")), rows)


def _pages(table: str) -> Iterator[list[sa.RowMapping]]:
    old, after = _table(table), 0
    while True:
        query = sa.select(old).where(old.c.id > after).order_by(old.c.id).limit(_PAGE)
        page = list(op.get_bind().execute(query).mappings())
        if not page:
            return
        yield page
        after = page[-1]["id"]


def _table(name: str) -> sa.Table:
    return sa.Table(name, sa.MetaData(), autoload_with=op.get_bind())


def _count_on(table: str) -> None:
    """Set the sequence of PostgreSQL after the copied ids, which it has not counted."""
    if op.get_bind().dialect.name == "postgresql":
        newest = f"(SELECT coalesce(max(id), 0) + 1 FROM {table})"  # noqa: S608
        op.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), {newest}, false)")


def _id() -> sa.Column[Any]:
    return sa.Column("id", _ID, primary_key=True, autoincrement=True)


def _texts(*names: str) -> tuple[sa.Column[Any], ...]:
    return tuple(sa.Column(name, sa.Text, nullable=False) for name in names)


def _bigs(*names: str) -> tuple[sa.Column[Any], ...]:
    return tuple(sa.Column(name, sa.BigInteger, nullable=False) for name in names)


def _integers(*names: str) -> tuple[sa.Column[Any], ...]:
    return tuple(sa.Column(name, sa.Integer, nullable=False) for name in names)


def _message() -> tuple[sa.Column[Any], ...]:
    return (
        *_texts("subscription", "broker", "topic"),
        *_integers("partition"),
        *_texts("position"),
        *_bigs("offset", "epoch", "time_ms"),
        sa.Column("lane", sa.LargeBinary, nullable=False),
        sa.Column("key", sa.LargeBinary),
        sa.Column("headers", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary),
        sa.Column("content_type", sa.LargeBinary),
        *_texts("event_id", "event_source", "event_type"),
    )


def _once() -> sa.UniqueConstraint:
    return sa.UniqueConstraint("subscription", "broker", "topic", "partition", "position")


def _make_tables() -> None:
    _make_messages()
    _make_attempts()
    _make_subscriptions()
    _make_owners()


def _make_messages() -> None:
    op.create_table(
        "dead_letters",
        _id(),
        *_message(),
        *_texts("cause", "detail"),
        *_integers("attempts"),
        sa.Column("status", sa.Integer),
        *_bigs("at_ms"),
        _once(),
        sqlite_autoincrement=True,
    )
    _index("dead_letters_by_cause", "dead_letters", "subscription", "cause", "at_ms")
    op.create_table(
        "parked",
        _id(),
        *_message(),
        sa.Column("redriven", sa.Boolean, nullable=False),
        *_integers("steps", "attempts"),
        *_bigs("due_ms"),
        *_texts("cause", "detail"),
        *_bigs("at_ms"),
        _once(),
        sqlite_autoincrement=True,
    )
    place = ("subscription", "broker", "topic", "partition", "lane")
    _index("parked_by_lane", "parked", *place, "redriven", "offset")
    _index("parked_count", "parked", "subscription", "lane", "at_ms", "redriven")
    _index("parked_by_due", "parked", "subscription", "redriven", "due_ms")
    op.create_table(
        "pulled",
        _id(),
        *_message(),
        *_integers("deliveries"),
        *_texts("token"),
        *_bigs("locked_until_ms", "at_ms"),
        _once(),
        sqlite_autoincrement=True,
    )
    _index("pulled_by_lane", "pulled", "subscription", "lane", "id")
    _index("pulled_by_token", "pulled", "token")


def _make_attempts() -> None:
    op.create_table(
        "attempts",
        _id(),
        *_texts("subscription", "topic"),
        *_integers("partition"),
        *_texts("position", "event_id", "event_source", "event_type"),
        *_integers("number"),
        *_bigs("started_ms"),
        sa.Column("duration_ms", sa.Float, nullable=False),
        *_texts("outcome"),
        sa.Column("status", sa.Integer),
        *_texts("detail"),
        sa.Column("next_try_in", sa.Float),
        sa.Column("together", sa.Integer, nullable=False, server_default="1"),
        sqlite_autoincrement=True,
    )
    _index("ix_attempts_started_ms", "attempts", "started_ms")
    _index("attempts_by_event", "attempts", "event_id")
    _index("attempts_by_subscription", "attempts", "subscription", "id")
    _index("attempts_by_outcome", "attempts", "subscription", "outcome", "id")


def _make_subscriptions() -> None:
    op.create_table(
        "subscriptions",
        sa.Column("id", sa.Text, primary_key=True),
        *_bigs("version"),
        sa.Column("document", sa.LargeBinary, nullable=False),
        *_bigs("created_ms", "updated_ms"),
    )
    op.create_table(
        "halts",
        sa.Column("subscription", sa.Text, primary_key=True),
        *_texts("kind", "cause"),
        *_bigs("since_ms"),
    )
    op.create_table(
        "commands",
        _id(),
        *_texts("subscription", "kind"),
        sa.Column("body", sa.LargeBinary, nullable=False),
        *_bigs("asked_ms"),
        sa.Column("taken_ms", sa.BigInteger),
        sa.Column("answer", sa.LargeBinary),
        sqlite_autoincrement=True,
    )
    _index("ix_commands_subscription", "commands", "subscription")
    op.create_table(
        "replays",
        _id(),
        *_texts("subscription", "broker", "topic"),
        *_integers("partition"),
        *_texts("next", "until"),
        sa.Column("rate", sa.Float, nullable=False),
        *_bigs("asked_ms", "done"),
        sqlite_autoincrement=True,
    )
    _index("ix_replays_subscription", "replays", "subscription")
    op.create_table(
        "revision",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        *_bigs("number"),
    )


def _make_owners() -> None:
    op.create_table(
        "owners",
        sa.Column("subscription", sa.Text, primary_key=True),
        sa.Column("broker", sa.Text, primary_key=True),
        sa.Column("topic", sa.Text, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        *_bigs("epoch", "since_ms"),
    )


def _index(name: str, table: str, *columns: str) -> None:
    op.create_index(name, table, list(columns))
