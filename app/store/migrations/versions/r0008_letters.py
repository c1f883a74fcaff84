"""Add the number of the dead letter to redriven rows, so that dead letters with one key keep their order."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Rows that were redriven before get 0, which sorts them first, without an order among them."""
    op.add_column("parked", sa.Column("letter", sa.BigInteger, nullable=False, server_default="0"))
    op.create_index(
        "parked_redriven",
        "parked",
        ["subscription", "lane", "letter"],
        sqlite_where=sa.text("redriven = 1"),
        postgresql_where=sa.text("redriven"),
    )
