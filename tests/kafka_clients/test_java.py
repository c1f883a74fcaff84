"""The tools of Apache Kafka itself: its Java clients, and what its people type."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from kafka_foreign import java, lines_of, produce, read

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("with_java")]
CODECS = ("gzip", "snappy", "lz4", "zstd")


def codecs(short: str) -> list[object]:
    """Each test of one starts a JVM: one whose frames every client makes in its own way is enough here."""
    return [short, *(pytest.param(it, marks=pytest.mark.nightly) for it in CODECS if it != short)]


def test_the_console_producer_writes_keys_and_headers(servers, topic):
    """An idempotent Java producer; read back by librdkafka."""
    properties = [
        word
        for setting in ("parse.key=true", "parse.headers=true", "null.marker=NULL")
        for word in ("--reader-property", setting)
    ]
    lines = b"ce_id:1,again:a,again:b\tk\tone\nh:x\tgone\tNULL\n"
    java("ConsoleProducer", servers, "--topic", topic, *properties, stdin=lines)
    found = read(servers, topic, 2)
    assert [(each.offset(), each.key(), each.value(), each.headers()) for each in found] == [
        (0, b"k", b"one", [("ce_id", b"1"), ("again", b"a"), ("again", b"b")]),
        (1, b"gone", None, [("h", b"x")]),
    ]


@pytest.mark.parametrize("compression", codecs("snappy"))
def test_the_console_consumer_shows_what_librdkafka_compressed(servers, topic, compression):
    """Headers in order, a null header, key and value; Java's own codecs read what we hand out."""
    headers = [("ce_id", b"1"), ("nothing", None), ("ce_id", b"2")]
    records = [(b"k", b"body" * 500, headers), (b"gone", None, [])]
    produce(servers, topic, records, **{"compression.type": compression})
    shown = [
        word
        for name in ("key", "headers", "offset")
        for word in ("--formatter-property", f"print.{name}=true")
    ]
    words = ["--topic", topic, "--from-beginning", "--max-messages", "2", *shown]
    assert lines_of(java("consumer.ConsoleConsumer", servers, *words)) == [
        f"Offset:0\tce_id:1,nothing:null,ce_id:2\tk\t{'body' * 500}",
        "Offset:1\tNO_HEADERS\tgone\tnull",
    ]


@pytest.mark.parametrize("compression", codecs("lz4"))
def test_javas_compression_is_read_by_librdkafka(servers, topic, compression):
    """Its frames differ from those of librdkafka: blocks of snappy, checksums of lz4."""
    lines = b"".join(b"line %d\n" % n for n in range(2_000))
    words = ["--topic", topic, "--compression-codec", compression]
    java("ConsoleProducer", servers, *words, stdin=lines)
    values = [each.value() or b"" for each in read(servers, topic, 2_000)]
    assert b"".join(value + b"\n" for value in values) == lines


@pytest.mark.parametrize("count", [3_000, pytest.param(50_000, marks=pytest.mark.nightly)])
def test_the_verifiable_producer_has_every_message_acknowledged_and_each_is_there(
    servers, topic, count
):
    """It numbers its messages; the partition holds each number once, in order, where it was told."""
    words = ("--topic", topic, "--max-messages", str(count))
    said = [json.loads(line) for line in lines_of(java("VerifiableProducer", servers, *words))]
    names = Counter(line["name"] for line in said)
    assert names == {
        "startup_complete": 1,
        "producer_send_success": count,
        "tool_data": 1,
        "shutdown_complete": 1,
    }
    acked = {line["offset"]: line["value"] for line in said if "offset" in line}
    found = {each.offset(): (each.value() or b"").decode() for each in read(servers, topic, count)}
    assert found == acked
    assert list(found.values()) == [str(n) for n in range(count)]
    offsets = java("GetOffsetShell", servers, "--topic", topic, "--time", "latest")
    assert lines_of(offsets) == [f"{topic}:0:{count}"]
