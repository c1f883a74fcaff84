"""Redriven rows know the letter that they were: letters of one lane go in the order of their letters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Rows that were given back before bear 0: they go before all others, and have no order of their own."""
    op.add_column("parked", sa.Column("letter", sa.BigInteger, nullable=False, server_default="0"))
    op.create_index(
        "parked_redriven",
        "parked",
        ["subscription", "lane", "letter"],
        sqlite_where=sa.text("redriven = 1"),
        postgresql_where=sa.text("redriven"),
    )
