"""Records as the bytes of rows and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bindings.record import Record
from app.log.codec import (
    ROW_BYTES,
    ROW_RECORDS,
    Row,
    Unstorable,
    check,
    decode_row,
    encode_rows,
    fields_of,
)

maybe_bytes = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=12), maybe_bytes), max_size=6).map(tuple)
records = st.builds(Record, maybe_bytes, headers, maybe_bytes, st.none() | st.text(max_size=20))


def rows_of(*stored: Record, base: int = 0) -> list[Row]:
    return encode_rows(base, 7, [fields_of(record) for record in stored])


def read(rows: list[Row]) -> list[Record]:
    return [Record(*fields) for row in rows for fields in decode_row(row) or ()]


@given(st.lists(records, min_size=1, max_size=5))
def test_every_record_comes_back_equal(stored: list[Record]) -> None:
    """Null and empty stay apart; order and repeats are kept (design: values)."""
    assert read(rows_of(*stored)) == stored


@given(st.lists(records, min_size=1, max_size=3), st.data())
def test_a_changed_byte_is_noticed(stored: list[Record], data: st.DataObject) -> None:
    """Never serves garbage (reliability R10)."""
    (row,) = rows_of(*stored)
    at = data.draw(st.integers(0, len(row[-1]) - 1))
    bad = bytearray(row[-1])
    bad[at] ^= data.draw(st.integers(1, 255))
    assert decode_row((*row[:-1], bytes(bad))) is None


@pytest.mark.parametrize("column", [0, 1, 2, 3])
def test_a_row_does_not_pass_for_another(column: int) -> None:
    """Its place, count and time are under the checksum too (reliability R10)."""
    (row,) = rows_of(Record(b"k", (), b"x"), base=5)
    changed = [*row]
    changed[column] += 1  # type: ignore[operator]
    assert decode_row(tuple(changed)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, 3_000, ROW_BYTES + 1])
def test_rows_are_bounded_and_follow_each_other(size: int) -> None:
    """A row is read as a whole, also for one record of it; a large record has one to itself."""
    stored = [Record(None, (), b"%d" % n + b"." * size) for n in range(ROW_RECORDS + 9)]
    rows = rows_of(*stored, base=3)
    offset = 3
    for base, count, _, _, data in rows:
        assert base == offset
        assert count <= ROW_RECORDS
        assert count == 1 or len(data) <= ROW_BYTES
        offset += count
    assert read(rows) == stored


def test_what_is_no_text_cannot_be_stored() -> None:
    """A lone surrogate has no UTF-8: it is told before the transaction."""
    bad = Record(None, (("\ud800", b""),), None)
    with pytest.raises(Unstorable):
        check(bad)
    with pytest.raises(Unstorable):
        rows_of(Record(None, (), b"good"), bad)
