"""A bound on the rows of a table, without counting them at every write."""

from __future__ import annotations

from sqlalchemy import Connection, Table, func, select

STRIDE = 1_000  # rows after which is counted anew: other processes write too, and people discard


class Room:
    """Several processes overstep the bound together by at most STRIDE rows each."""

    def __init__(self, table: Table, max_rows: int) -> None:
        self._table = table
        self._max_rows = max_rows
        self._left = 0  # of what was there when it was last counted

    def take(self, connection: Connection) -> bool:
        """Whether a row that was just written may stay."""
        if self._left <= 0:
            rows = connection.scalar(select(func.count()).select_from(self._table)) or 0
            self._left = min(STRIDE, self._max_rows - rows + 1)
        if self._left <= 0:
            return False
        self._left -= 1
        return True
