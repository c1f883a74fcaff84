"""Add the owner of a stored subscription."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Every stored subscription was created by a caller of the API before, which is "" here."""
    op.add_column("subscriptions", sa.Column("owner", sa.Text, nullable=False, server_default=""))
