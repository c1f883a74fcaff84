"""Make records with a few bytes changed: in headers anywhere, in documents mostly in the event's
attributes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from app.bindings.record import Header, Record

PIECES = (
    b'"', b"\\", b",", b":", b"{", b"}", b"[", b" ", b"\n", b"\x7f", b"\x00", b"\xc2\x85", b"\xc3\xa9",
    b"\xef\xb7\x90", b"\xf0\x9f\x98\x80", b"\xff", b"\xc3", b"1", b"true", b"null", b"-0", b"2147483648",
    b'"id":"2",', b'"a":1,', b'"a":"1",', b'"a":-0,', b'"A":"1",', b'"data":1,', b'"Data":1,', b'"subject":"",',
    b'"subject":1,', b'"a\\u0062":"x",', b'"a":"\\u0022\\ud83d\\ude00",', b'"a":"\\ud800",', b'"dataschema":"x y",',
    b'"time":"2026-02-30T00:00:00Z",', b"1.0", b"1.0-rc1", b"0.3", b"0.2", b"0.1", b'"schemaurl":"/x",',
    b'"datacontenttype":"text/plain",', b'"contenttype":"image/png",', b'"datacontentencoding":"base64",',
    b'"data_base64":"AA==",', b'"data_base64":"A",', b'"data_base64":null,', b'"extensions":{"a":"b"},',
    b'"extensions":{},', b'"extensions":{"Subject":"s","data":"x"},', b'"extensions":{"a":1,"a":1},',
    b'"extensions/a":"b",', b'"eventTypeVersion":"1",', b'"eventTypeVersion":1,', b'"cloudEventsVersion":"0.1",',
    b"\\u0041", b"\\n", b"%zz", b"#", b"; charset=latin1", b"\xef\xbb\xbf",
)  # fmt: skip
NAMES = (
    "ce_a", "ce_subject", "x", "ce_id", "ce_data", "ce_dataschema", "ce_schemaurl", "ce_contenttype", "CE_b", "ce_9x",
    "ce_specversion", "ce_a-b", "ce_datacontentencoding", "content-type", "Content-Type", "CE-CloudEventsVersion",
    "CE-X-a", "CE-X-A", "CE-X-subject", "CE-X-data", "CE-X-eventtypeversion", "CE-EventTypeVersion", "CE-EventID",
    "CE-eventid", "CE-Source", "CE-Subject", "CE-Specversion", "CE-ContentType", "CE-X-Tenant", "CE-Tenant", "",
)  # fmt: skip
VALUES = (
    b"1", b"-0", b"true", b"/s", b"", b"http://a/b", None, b"text/plain", b"application/cloudevents+json", b'"x"',
    b'"', b'""', b'"a\\"b"', b'"a"b"', b'{"a":1}', b"1.0", b"0.1", b'"0.1"', b'"0.2"', b'"1.0"', b"\xff", b"0.3",
)  # fmt: skip


def mutated(records: Sequence[Record], count: int, seed: int = 8) -> Iterator[Record]:
    """Yield ``count`` records, each one of ``records`` with at most three changes. The same seed
    always gives the same records."""
    chance = random.Random(seed)
    for _ in range(count):
        record = records[chance.randrange(len(records))]
        if any(value and b"cloudevents" in value for _, value in record.headers):
            body = _changed_bytes(chance, record.body or b"", chance.choice([80, 300, 2000]))
            yield Record(record.key, record.headers, body)
        else:
            body = record.body if chance.random() < 0.9 else chance.choice([None, b"", b"\xff"])
            yield Record(record.key, _changed_headers(chance, list(record.headers)), body)


def _changed_bytes(chance: random.Random, octets: bytes, reach: int) -> bytes:
    found = bytearray(octets)
    for _ in range(chance.choice([0, 1, 1, 2, 3])):
        at = chance.randrange(min(len(found), reach) + 1)
        how, piece = chance.random(), chance.choice(PIECES)
        comma = found.find(b",", at)
        if how < 0.3:
            found[at:at] = piece
        elif how < 0.5:
            found[at : at + 1] = piece
        elif how < 0.6:
            del found[at : at + chance.choice([1, 1, 2, 8])]
        elif comma > 0:
            found[comma + 1 : comma + 1] = piece
    return bytes(found)


def _changed_headers(chance: random.Random, headers: list[Header]) -> tuple[Header, ...]:
    for _ in range(chance.choice([0, 1, 1, 2])):
        if not headers:
            break
        at, how = chance.randrange(len(headers)), chance.random()
        name, value = headers[at]
        if how < 0.4:
            headers[at] = (name, _changed_bytes(chance, value or b"", 40))
        elif how < 0.5:
            headers[at] = (name, chance.choice(VALUES))
        elif how < 0.6:
            headers[at] = (
                _changed_bytes(chance, name.encode(), 20).decode("utf-8", "replace"),
                value,
            )
        elif how < 0.85:
            new = (chance.choice(NAMES), chance.choice(VALUES))
            headers.insert(chance.randrange(len(headers) + 1), new)
        elif how < 0.95:
            del headers[at]
        else:
            chance.shuffle(headers)
    return tuple(headers)
