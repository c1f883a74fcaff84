"""Add the addresses at which webhooks may consent later."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "consents",
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("subscription", sa.Text, nullable=False),
        sa.Column("until_ms", sa.BigInteger, nullable=False),
        sa.Column("called_ms", sa.BigInteger),
        sa.Column("rate", sa.Text),
    )
