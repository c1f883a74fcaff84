"""The store's revision: a number that grows with every change that workers have to apply."""

from __future__ import annotations

from sqlalchemy import Connection, select

from app.store.rows import insert
from app.store.tables import revision

_ROW = 1


def grow(connection: Connection) -> int:
    """Raise the revision, and return it.

    Its row stays locked until the end of the transaction, so that revisions become visible in order."""
    first = insert(connection, revision).values(id=_ROW, number=1)
    number: int = connection.execute(
        first.on_conflict_do_update(
            index_elements=["id"], set_={"number": revision.c.number + 1}
        ).returning(revision.c.number)
    ).scalar_one()
    return number


def read(connection: Connection) -> int:
    """Return the revision, 0 before the first change."""
    return connection.scalar(select(revision.c.number).where(revision.c.id == _ROW)) or 0
