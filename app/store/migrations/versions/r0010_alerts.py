"""Add the reports of processes and the sender of alerts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables. Nothing has been sent before."""
    op.create_table(
        "alert_reports",
        sa.Column("process", sa.Text, primary_key=True),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "alert_sender",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("process", sa.Text, nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )
