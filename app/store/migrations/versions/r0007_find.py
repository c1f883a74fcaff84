"""Add requests and answers of attempts, consumers of pull queues, and indexes to find events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("exchange", sa.LargeBinary))
    op.add_column("pulled", sa.Column("consumer", sa.Text, nullable=False, server_default=""))
    for table in ("dead_letters", "parked"):  # a hash, because PostgreSQL's trees hold no long ids
        op.create_index(f"{table}_by_event", table, ["event_id"], postgresql_using="hash")
