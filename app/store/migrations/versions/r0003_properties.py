"""Add the column for the typed headers, id and time of a broker's messages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("dead_letters", "parked", "pulled"):
        op.add_column(table, sa.Column("properties", sa.LargeBinary))
