"""Add the kind of logins to the audit, and a count to entries that repeat."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. Each earlier entry counts once and is never continued."""
    op.add_column("audit", sa.Column("count", sa.Integer, nullable=False, server_default="1"))
    op.add_column("audit", sa.Column("last_ms", sa.BigInteger))
    op.add_column("audit", sa.Column("alike", sa.Text))
    op.create_index("audit_by_alike", "audit", ["alike"])
    op.execute("UPDATE audit SET kind = 'login' WHERE operation IN ('log_in', 'log_out')")
