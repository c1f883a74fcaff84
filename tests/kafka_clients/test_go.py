"""franz-go, the client of Go: it shares no code with librdkafka nor with Java's."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from kafka_foreign import franz_go, parts_of, produce, read

pytestmark = pytest.mark.usefixtures("with_go")

RECORDS = [
    (b"k", b"body", [("ce_id", b"1"), ("nothing", None), ("ce_id", b"2"), ("empty", b"")]),
    (None, b"without a key", []),
    (b"gone", None, [("why", b"\x00\xff")]),
    (b"\x00\xff", bytes(range(256)), []),
]


def text(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def said(offset: int) -> dict[str, Any]:
    key, value, headers = RECORDS[offset]
    return {
        "key": text(key),
        "value": text(value),
        "headers": [{"key": name, "value": text(content)} for name, content in headers],
        "partition": 0,
        "offset": offset,
    }


ALL = [said(offset) for offset in range(len(RECORDS))]


def test_what_it_produces_is_consumed_by_another_client(servers, topic):
    """Idempotent, as it is without being asked."""
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in ALL)
    answers = franz_go("produce", servers, topic, stdin=lines)
    assert [each["offset"] for each in answers] == [0, 1, 2, 3]
    assert [parts_of(message) for message in read(servers, topic, len(RECORDS))] == RECORDS


def test_it_reads_what_another_client_produced(servers, topic):
    produce(servers, topic, RECORDS, **{"compression.type": "zstd"})
    assert franz_go("read", servers, topic, str(len(RECORDS))) == ALL
