"""Add the positions of subscriptions that share the membership of one group."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table. Every subscription had a group of its own before."""
    op.create_table(
        "progress",
        *(sa.Column(name, sa.Text, primary_key=True) for name in ("broker", "group", "topic")),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("shared", sa.Text, nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("finished", sa.Text, nullable=False),
        sa.Column("apart", sa.Boolean, nullable=False),
    )
    op.create_index("progress_by_partition", "progress", ["broker", "shared", "topic", "partition"])
