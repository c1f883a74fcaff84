"""A record as bytes and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.bindings.record import Record
from app.log.codec import decode_record, encode_record

maybe_bytes = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=12), maybe_bytes), max_size=6).map(tuple)
records = st.builds(Record, maybe_bytes, headers, maybe_bytes, st.none() | st.text(max_size=20))


@given(records)
def test_every_record_comes_back_equal(record: Record) -> None:
    """Null and empty stay apart; order and repeats are kept (design: values)."""
    assert decode_record(*encode_record(record)) == record


@given(records, st.data())
def test_a_changed_byte_is_noticed(record: Record, data: st.DataObject) -> None:
    """Never serves garbage (reliability R10)."""
    checksum, good = encode_record(record)
    at = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[at] ^= data.draw(st.integers(1, 255))
    assert decode_record(checksum, bytes(bad)) is None
