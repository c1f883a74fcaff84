"""Pages of rows that may be large: bounded in number and, roughly, in bytes (rule 8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import urlencode

from fastapi import Request

from app.interfaces import DeadLetter, Parked

LIMIT, LIMIT_MAX = 100, 1_000
BYTES = 16 << 20  # of the messages of a page; one is always given
AT_ONCE = 50  # rows that are read at a time

Row = TypeVar("Row", DeadLetter, Parked)


async def read(
    ask: Callable[[int, int | None], Awaitable[list[Row]]], limit: int, cursor: int | None
) -> tuple[list[Row], bool]:
    """``ask`` takes how many rows at most, and the id of the one before them. The rows, and whether
    there are more."""
    found: list[Row] = []
    size = 0
    while True:
        wanted = min(AT_ONCE, limit + 1 - len(found))
        rows = await ask(wanted, cursor)
        for row in rows:
            if len(found) == limit or (found and size > BYTES):
                return found, True
            found.append(row)
            size += _size(row)
        if len(rows) < wanted:
            return found, False
        cursor = rows[-1].id


def _size(row: DeadLetter | Parked) -> int:
    record = row.message.record
    return len(record.body or b"") + sum(len(value or b"") for _, value in record.headers)


def link(request: Request, **cursor: int) -> str:
    """The same request, from another place on."""
    kept = [pair for pair in request.query_params.multi_items() if pair[0] not in cursor]
    return f"{request.url.path}?{urlencode([*kept, *cursor.items()])}"
