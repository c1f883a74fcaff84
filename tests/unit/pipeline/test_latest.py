"""Which row is the newest of its source and subject, and what has the time of its record instead."""

from __future__ import annotations

import duckdb

from app.pipeline.latest import latest_rows

ROWS = """
CREATE TABLE events AS SELECT * FROM (VALUES
    ('/a', 'x', 'older', TIMESTAMPTZ '2026-01-01 10:00Z', TIMESTAMPTZ '2026-01-01 12:00Z', 'b', 't', 0, 9),
    ('/a', 'x', 'newer', TIMESTAMPTZ '2026-01-01 11:00Z', TIMESTAMPTZ '2026-01-01 11:30Z', 'b', 't', 0, 8),
    ('/a', NULL, 'without a subject', TIMESTAMPTZ '2026-01-01 09:00Z', TIMESTAMPTZ '2026-01-01 09:00Z', 'b', 't', 0, 1),
    ('/b', 'x', 'timed', TIMESTAMPTZ '2026-01-01 10:00Z', TIMESTAMPTZ '2026-01-01 10:00Z', 'b', 't', 0, 2),
    ('/b', 'x', 'without a time', NULL, TIMESTAMPTZ '2026-01-01 10:30Z', 'b', 't', 0, 3),
    ('/c', 'x', 'first of two', TIMESTAMPTZ '2026-01-01 10:00Z', TIMESTAMPTZ '2026-01-01 10:00Z', 'b', 't', 0, 4),
    ('/c', 'x', 'last of two', TIMESTAMPTZ '2026-01-01 10:00Z', TIMESTAMPTZ '2026-01-01 10:00Z', 'b', 't', 0, 5)
) AS rows(source, subject, id, time, record_time, broker, topic, partition, "offset")
"""


def test_one_row_of_each_source_and_subject_is_left() -> None:
    with duckdb.connect() as memory:
        memory.execute(ROWS)
        found = memory.sql(f"SELECT id FROM ({latest_rows('events', without='EXCLUDE')})")
        names = {name for (name,) in found.fetchall()}
    assert names == {"newer", "without a subject", "without a time", "last of two"}


def test_the_columns_of_a_typed_table_have_their_prefix() -> None:
    """And no other column is added."""
    with duckdb.connect() as memory:
        memory.execute(ROWS)
        columns = memory.sql("SELECT * FROM events").columns
        renamed = ", ".join(f'"{each}" AS "ce_{each}"' for each in columns)
        more = "2 AS rank_of_row, {'ce_time': 'text'} AS e"
        memory.execute(f"CREATE TABLE orders AS SELECT {renamed}, {more} FROM events")
        found = memory.sql(latest_rows("orders", prefix="ce_", without="EXCLUDE"))
        assert found.columns == [*(f"ce_{each}" for each in columns), "rank_of_row", "e"]
        assert len(found) == 4
