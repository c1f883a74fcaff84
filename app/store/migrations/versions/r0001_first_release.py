"""The schema of the releases before Alembic, which stored their number in ``skybridge_schema``.

A database of such a release has these tables already; one of version 1 lacks ``stream_offsets``."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    present = set(sa.inspect(op.get_bind()).get_table_names())
    for name, make in _TABLES.items():
        if name not in present:
            make()


def _dead_letters() -> None:
    op.create_table(
        "dead_letters",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("subscription", sa.Text, nullable=False),
        sa.Column("broker", sa.Text, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("position", sa.Text, nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("time_ms", sa.BigInteger, nullable=False),
        sa.Column("key", sa.LargeBinary),
        sa.Column("headers", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary),
        sa.Column("content_type", sa.Text),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("subscription", "broker", "topic", "partition", "position"),
    )


def _disabled_subscriptions() -> None:
    op.create_table(
        "disabled_subscriptions",
        sa.Column("subscription", sa.Text, primary_key=True),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("since", sa.Text, nullable=False),
    )


def _owners() -> None:
    op.create_table(
        "owners",
        sa.Column("subscription", sa.Text, primary_key=True),
        sa.Column("broker", sa.Text, primary_key=True),
        sa.Column("topic", sa.Text, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
    )


def _stream_offsets() -> None:
    op.create_table(
        "stream_offsets",
        sa.Column("broker", sa.Text, primary_key=True),
        sa.Column("group", sa.Text, primary_key=True),
        sa.Column("topic", sa.Text, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("finished", sa.Text, nullable=False),
    )


def _skybridge_schema() -> None:
    op.create_table("skybridge_schema", sa.Column("version", sa.Integer, nullable=False))


_TABLES = {
    "dead_letters": _dead_letters,
    "disabled_subscriptions": _disabled_subscriptions,
    "owners": _owners,
    "stream_offsets": _stream_offsets,
    "skybridge_schema": _skybridge_schema,
}
