"""Add a counter for parked rows to the owners, and drop their time, because no order depends on a clock now."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_PLACE = ("subscription", "broker", "topic", "partition")


def upgrade() -> None:
    op.execute("CREATE TABLE old_owners AS SELECT * FROM owners")
    op.drop_table("owners")  # copied, not renamed: its constraint would keep the name
    op.create_table(
        "owners",
        sa.Column("subscription", sa.Text, primary_key=True),
        sa.Column("broker", sa.Text, primary_key=True),
        sa.Column("topic", sa.Text, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
    )
    _take_over()
    op.drop_table("old_owners")


def _take_over() -> None:
    """Copy the owners. Each counter starts at the highest stored number, so that new numbers are higher."""
    place = ", ".join(_PLACE)
    same = " AND ".join(f"parked.{name} = old_owners.{name}" for name in _PLACE)
    greatest = f'SELECT coalesce(max("offset"), 0) FROM parked WHERE {same}'  # noqa: S608
    op.execute(
        f"INSERT INTO owners ({place}, epoch, number)"  # noqa: S608
        f" SELECT {place}, epoch, ({greatest}) FROM old_owners"
    )
