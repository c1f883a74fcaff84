"""The columns of a record, as every source of Spark returns it."""

from __future__ import annotations

import re
from typing import Final

LOCATION: Final = "broker STRING, topic STRING, partition INT, offset BIGINT, record_time TIMESTAMP"
"""The columns of a record's position. ``broker`` is the name in the configuration; ``record_time``
is the broker's clock.

All of them but the time identify a record.
"""

HEADERS: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
RECORD: Final = f"key BINARY, value BINARY, headers {HEADERS}"
"""The columns of a record's content. A null ``value`` is a tombstone; headers keep their order,
repeats and nulls.
"""

RAW: Final = f"{LOCATION}, {RECORD}"


def column_names(columns: str) -> list[str]:
    """Return the names of columns declared in SQL, such as ``id STRING, faults
    ARRAY<STRUCT<...>>``.
    """
    flat = columns
    while (inner := re.sub(r"<[^<>]*>", "", flat)) != flat:
        flat = inner
    return [column.split()[0] for column in flat.split(",")]
