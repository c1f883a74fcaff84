"""Logins are a kind of the audit, and entries that repeat are one with a count."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Entries from before count once each, and no later one is added to them."""
    op.add_column("audit", sa.Column("count", sa.Integer, nullable=False, server_default="1"))
    op.add_column("audit", sa.Column("last_ms", sa.BigInteger))
    op.add_column("audit", sa.Column("alike", sa.Text))
    op.create_index("audit_by_alike", "audit", ["alike"])
    op.execute("UPDATE audit SET kind = 'login' WHERE operation IN ('log_in', 'log_out')")
