"""kcat, as Debian has it: an older librdkafka, and the tool people reach for first."""

from __future__ import annotations

import json

import pytest

from kafka_foreign import kcat

pytestmark = pytest.mark.usefixtures("with_kcat")


def test_topics_are_listed(servers, topic):
    kcat(servers, "-P", "-t", topic, stdin=b"x\n")
    found = json.loads(kcat(servers, "-L", "-J", "-t", topic))
    assert found["brokers"] == [{"id": 0, "name": servers}]
    assert found["controllerid"] == 0
    place = {"partition": 0, "leader": 0, "replicas": [{"id": 0}], "isrs": [{"id": 0}]}
    assert found["topics"] == [{"topic": topic, "partitions": [place]}]


def test_lines_with_keys_and_headers_are_produced_and_consumed(servers, topic):
    """Keys, headers, and a null value (-Z) come out as they went in."""
    headers = ["-H", "ce_id=1", "-H", "again=a", "-H", "again=b"]
    kcat(servers, "-P", "-t", topic, "-K:", "-Z", *headers, stdin=b"a:one\nb:two\ngone:\n")
    shown = "%o|%k|%K|%s|%S|%h\n"
    text = kcat(servers, "-C", "-t", topic, "-e", "-q", "-f", shown)
    assert text.decode().splitlines() == [
        "0|a|1|one|3|ce_id=1,again=a,again=b",
        "1|b|1|two|3|ce_id=1,again=a,again=b",
        "2|gone|4||-1|ce_id=1,again=a,again=b",
    ]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_lines_come_out_as_they_went_in(servers, topic, compression):
    lines = b"".join(b"line %d\n" % n for n in range(1_000))
    kcat(servers, "-P", "-t", topic, "-z", compression, stdin=lines)
    assert kcat(servers, "-C", "-t", topic, "-e", "-q") == lines


def test_offsets_are_asked_for_by_time(servers, topic):
    """-Q: the earliest, the latest, and of a time that is still to come."""
    kcat(servers, "-P", "-t", topic, stdin=b"a\nb\nc\n")
    times = ("-2", "-1", "0", "4102444800000")
    said = [kcat(servers, "-Q", "-t", f"{topic}:0:{time}").decode().strip() for time in times]
    assert said == [f"{topic} [0] offset {offset}" for offset in (0, 3, 0, -1)]


def test_the_last_lines_alone_are_consumed(servers, topic):
    """An offset counted from the end."""
    kcat(servers, "-P", "-t", topic, stdin=b"a\nb\nc\n")
    assert kcat(servers, "-C", "-t", topic, "-o", "-2", "-e", "-q") == b"b\nc\n"
