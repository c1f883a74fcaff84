"""What SQLite and PostgreSQL say differently, in one place."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

Insert = sqlite.Insert | postgresql.Insert


def insert(connection: Connection, table: Table) -> Any:
    """An INSERT that knows ON CONFLICT. Both dialects write it alike, SQLAlchemy has two classes."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)
