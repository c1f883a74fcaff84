"""The partition of each row: days of a time, buckets of ``identity``, or buckets of days."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from app.pipeline.archive.identity import buckets
from app.pipeline.decode.buffers import Numbers

_DAY: Final = 86_400_000_000  # microseconds
_UNTIMED: Final = 1 << 40
"""The number of the day of a row without a time."""


class Part(msgspec.Struct, frozen=True):
    """A part of a table's partitioning.

    Attributes:
        name: The name of the partition field.
        column: The column from which the value is computed: a time, or ``identity``.
        buckets: The number of buckets; 0 if the value is the day of a time.
    """

    name: str
    column: str
    buckets: int = 0


def partition_numbers(rows: pa.RecordBatch, by: Sequence[Part], known: Numbers) -> Numbers:
    """Return a number for the partition of each row, from which ``partition_of`` computes it."""
    found = np.zeros(len(rows), np.int64)
    for part in by:
        if part.buckets:
            found = found * part.buckets + buckets(known, part.buckets)
        else:
            found = _days(rows.column(part.column))
    return found


def partition_of(number: int, by: Sequence[Part]) -> list[int | None]:
    """Return the values of the parts of a partition."""
    values: list[int | None] = []
    for part in reversed(by):
        if part.buckets:
            number, value = divmod(number, part.buckets)
            values.append(value)
        else:
            values.append(None if number == _UNTIMED else number)
    return values[::-1]


def _days(times: pa.Array) -> Numbers:
    """Return the days since 1970 of times; ``_UNTIMED`` for null."""
    days = times.cast(pa.int64()).fill_null(0).to_numpy() // _DAY
    found: Numbers = np.where(times.is_null().to_numpy(zero_copy_only=False), _UNTIMED, days)
    return found


def shown(part: Part, value: int | None) -> str:
    """Return the value of a part as the name of a folder has it."""
    if value is None:
        return "null"
    return str(value if part.buckets else np.datetime64(value, "D"))
