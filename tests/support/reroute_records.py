"""Random records in every version and mode, some of them broken, and the content of a Kafka topic."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from confluent_kafka import Message, Producer

from app.bindings import kafka
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.transcode import EncodeOptions
from app.event.value import AttributeType, CloudEvent, DataForm
from kafka_librdkafka import PATIENCE, make_topic, messages

_TEXTS = ("a", "b c", "grün", 'say "hi"', "back\\slash", "50%", "\U0001f600", "/x/y", "ß\u3000")
_TYPES = ("com.example.order.created", "com.example.order.cancelled", "org.other", "org.text")
_JSON = (
    '{"a":1.10,"b":[1,{"c":null}]}', "12.50", '"text"', "null", "true", '{"a":1,"a":2}', "1e400",
    '{"u":"\\u00e9\\ud83d\\ude00"}', " {}", "{} ", "{}{}", "[1] [2]", "NaN", "{'a':1}", "", "[1,7291834650123] x",
    '"\\ud800"', "\ufeff{}", "-0", "01", "[" * 90 + "]" * 90, "[" * 1200 + "]" * 1200, '{"a":"b\x01"}',
)  # fmt: skip
_BODIES: Mapping[str | None, Sequence[bytes]] = {
    "application/json": [text.encode() for text in _JSON],
    "Application/Vnd.x+JSON; charset=utf-8": [text.encode() for text in _JSON[:5]],
    "text/json": [b"{}", b"plain"],
    "text/plain": [
        b"plain",
        'grün\n\t"x"\\'.encode(),
        b"\x00\x1f",
        b"\x0b\x08\x0c\r\x7f",
        b"\xff",
        b"",
    ],
    "text/plain; charset=iso-8859-1": [b"gr\xfcn", b"plain"],
    "application/xml": [b"<a>&amp;</a>", b"\xfe"],
    "application/octet-stream": [b"\x00\xff", b"plain"],
    'a/b; c="d;e"': [b"x"],
    None: [b"bare", b"\xff\x00", b"{}"],
}
_FOREIGN: Sequence[Header] = (
    ("traceparent", b"00-1"), ("x-a", b"1"), ("x-a", b"2"), ("x-null", None), ("X-Foreign-x", b"1"),
    ("x-foreign-ce_id", b"1"), ("x-foreign-x", b"1"), ("odd \xe4", b"\xff"), ("id", b"7"),
)  # fmt: skip


def random_records(count: int, seed: int) -> Iterator[Record]:
    chance = Random(seed)
    for n in range(count):
        yield _record(chance, n)


def _record(chance: Random, n: int) -> Record:
    mode = chance.choice(["binary", "binary", "binary", "structured"])
    version = chance.choice(["1.0"] * 6 + ["0.3", "0.2", "0.1"])
    decoded = Decoded(_event(chance, n), ContentMode.BINARY, foreign=_foreign(chance))
    writing = EncodeOptions(mode=mode, version=version)  # type: ignore[arg-type]
    key = chance.choice([None, b"", b"\xff", *(f"k{i}".encode() for i in range(20))])
    record = kafka.encode(decoded, writing, key)
    return _broken(chance, record) if chance.random() < 0.06 else record


def _event(chance: Random, n: int) -> CloudEvent:
    kind = chance.choice(list(_BODIES))
    body = None if chance.random() < 0.1 else chance.choice(_BODIES[kind])
    given = {
        "specversion": "1.0",
        "id": f"{n}",
        "source": chance.choice(["/shop", "urn:a:b", "https://example.com/a?b=c"]),
        "type": chance.choice(_TYPES),
        "subject": chance.choice([None, *_TEXTS]),
        "time": chance.choice(
            [None, "2026-11-20T10:00:00Z", "2026-11-20t10:00:00.123456789+01:00"]
        ),
        "dataschema": chance.choice([None, "urn:schema:1"]),
        "partitionkey": chance.choice([None, "p1", "p2", "grün"]),
        "region": chance.choice([None, "eu", "us", "..", "a b"]),
        "priority": chance.choice([None, "1", "5"]),
        "datacontenttype": kind,
    }
    names = list(given)
    chance.shuffle(names)
    attributes = {name: text for name in names if (text := given[name]) is not None}
    types = {"priority": AttributeType.INTEGER} if "priority" in attributes else {}
    return CloudEvent(attributes, body, DataForm.OPAQUE, types)


def _foreign(chance: Random) -> tuple[Header, ...]:
    if chance.random() < 0.6:
        return ()
    return tuple(chance.sample(_FOREIGN, chance.randint(1, 3)))


def _broken(chance: Random, record: Record) -> Record:
    headers = list(record.headers)
    match chance.randrange(7):
        case 0:
            return Record(record.key, (), record.body)
        case 1:
            chance.shuffle(headers)
        case 2:
            headers = headers[1:]
        case 3:
            headers.append(("ce_BAD", b"x"))
        case 4:
            headers.append(headers[0])
        case 5:
            headers = [(name.upper(), value) for name, value in headers]
        case 6:
            return Record(record.key, tuple(headers), json.dumps([1]).encode())
    return Record(record.key, tuple(headers), record.body)


def make_topics(servers: str, topics: Mapping[str, int]) -> None:
    for topic, partitions in topics.items():
        make_topic(servers, topic, partitions)


def publish(servers: str, topic: str, records: Sequence[Record], partitions: int) -> None:
    """Publish the records to the partitions in turn, so that a key occurs in several partitions."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for n, record in enumerate(records):
        producer.produce(
            topic, record.body, record.key, n % partitions, headers=list(record.headers)
        )
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0


def read(servers: str, topic: str) -> list[tuple[int, Record]]:
    """Return all records of a topic with the number of their partition, partition by partition."""
    return [(each.partition(), _read(each)) for each in messages(servers, topic)]


def _read(message: Message) -> Record:
    assert message.error() is None, message.error()
    headers: Any = message.headers() or []
    return Record(message.key(), tuple((name, value) for name, value in headers), message.value())
