"""One record as columns: a verdict for every refusal, and never an exception (pipeline.md 5)."""

from __future__ import annotations

import pytest

from app.bindings.record import Decoded, Record
from app.pipeline.decode.judged import decode_row
from decode_records import REQUIRED, document, poison


def test_an_event() -> None:
    row = decode_row(Record(b"k", (*REQUIRED, ("ce_a", b"1"), ("x", b"y")), b"\xff"))
    assert (row.verdict, row.id, row.extensions, row.types) == (None, "1", [("a", "1")], None)
    assert (row.data, row.data_bytes, row.data_form) == (None, b"\xff", "opaque")
    assert (row.content_mode, row.origin_version) == ("binary", "1.0")


def test_types_are_told() -> None:
    row = decode_row(
        document(b'{"specversion":"1.0","id":"1","source":"/","type":"t","n":5,"data":1.10}')
    )
    assert (row.extensions, row.types) == ([("n", "5")], [("n", "Integer")])
    assert (row.data, row.data_form, row.content_mode) == ("1.10", "json", "structured")


@pytest.mark.parametrize(
    ("record", "verdict", "rule"),
    [
        (Record(None, REQUIRED[1:], b""), "invalid", "missing-attribute"),
        (Record(None, (), b"x"), "foreign", "not-a-cloudevent"),
        (document(b"<a/>", b"application/cloudevents+xml"), "unreadable", "unsupported-format"),
        (document(b"x", b"application/cloudevents+cbor"), "unreadable", "unsupported-format"),
    ],
)
def test_verdicts(record: Record, verdict: str, rule: str) -> None:
    row = decode_row(record)
    assert (row.verdict, row.rule) == (verdict, rule)
    assert row.detail
    assert bool(row.faults) == (verdict == "invalid")
    assert (row.id, row.data, row.content_mode) == (None, None, None)


def test_a_decoder_that_breaks_costs_one_record() -> None:
    """It goes to quarantine, from where it is redriven when the decoder is mended."""

    def broken(_record: Record) -> Decoded:
        raise ZeroDivisionError("by \udcff")

    row = decode_row(Record(None, REQUIRED, b""), broken)
    assert (row.verdict, row.rule) == ("unreadable", "decoder-failed")
    assert "ZeroDivisionError" in (row.detail or "")


@pytest.mark.parametrize("name", poison())
def test_what_is_told_can_be_written(name: str) -> None:
    row = decode_row(poison()[name])
    told = [row.rule, row.detail, *(text for fault in row.faults or [] for text in fault.values())]
    assert all(text is None or text.encode() is not None for text in told)
