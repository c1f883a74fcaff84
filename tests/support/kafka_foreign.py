"""Run third-party Kafka clients and return their output unchanged."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

import opinion_install
from kafka_install import HOME, JARS
from opinion_install import KAFKA_CLIENT

PATIENCE = 60.0  # seconds; normally a moment suffices

_CLASSES = HOME / "tools.jsa"  # a class data archive; JVMs of another version ignore it
_JVM = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-Xlog:disable", "-Xlog:all=error:stderr")
_TOOLS = (
    "-XX:TieredStopAtLevel=1",  # most run for a second, so the start decides their cost
    f"-Dlog4j2.configurationFile={HOME}/log4j2.xml",
    *("-cp", f"{JARS}/*"),
)
_JAVA = (*_JVM, f"-XX:SharedArchiveFile={_CLASSES}", *_TOOLS)

RecordParts = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Key, value and headers of a record."""


def kcat(servers: str, *words: str, stdin: bytes = b"") -> bytes:
    command = ["kcat", "-b", servers, *words]
    result = subprocess.run(command, input=stdin, capture_output=True, timeout=180, check=False)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


def java(tool: str, servers: str, *words: str, stdin: bytes = b"") -> str:
    """Run one of Kafka's Java tools and return its standard output. Raises AssertionError if the
    tool fails.

    ``tool`` is the name of the class below ``org.apache.kafka.tools``.
    """
    result = java_result(tool, servers, *words, stdin=stdin)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode()


def java_result(
    tool: str, servers: str, *words: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run one of Kafka's Java tools and return the whole result.

    Some tools exit with 0 after a failure and report it only on standard error.
    """
    command = [*_JAVA, f"org.apache.kafka.tools.{tool}", "--bootstrap-server", servers, *words]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=180, check=False)


def keep_classes(servers: str) -> None:
    """Write the class data archive of Kafka's Java tools, once in a checkout.

    A tool then starts in about half the processor time. The archive comes from a tool that
    produces, consumes and asks for topics. Without the archive nothing but the time differs.
    """
    if _CLASSES.exists():
        return
    fresh = _CLASSES.with_name(f"tools-{os.getpid()}.jsa")
    keep = (*_JVM, f"-XX:ArchiveClassesAtExit={fresh}", *_TOOLS)
    words = ("--topic", "classes", "--num-records", "1", "--producer-acks", "all")
    tool = ("org.apache.kafka.tools.EndToEndLatency", "--bootstrap-server", servers, *words)
    with suppress(subprocess.SubprocessError):
        subprocess.run(
            [*keep, *tool, "--record-size", "10"], capture_output=True, timeout=300, check=True
        )
        fresh.replace(_CLASSES)


def franz_go(verb: str, servers: str, topic: str, *words: str, stdin: bytes = b"") -> list[Any]:
    """Run the Go client of ``tests/kafka_clients/go`` and return its lines of JSON."""
    start = opinion_install.command(KAFKA_CLIENT, opinion_install.installed(KAFKA_CLIENT))
    command = [*start, verb, servers, topic, *words]
    result = subprocess.run(command, input=stdin, capture_output=True, timeout=180, check=False)
    assert result.returncode == 0, result.stderr.decode()
    return [json.loads(line) for line in result.stdout.splitlines()]


@contextmanager
def running_java(
    tool: str, servers: str, out: Path, *words: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Java tool in the background during the block, with its standard output in the file
    ``out``.
    """
    command = [*_JAVA, f"org.apache.kafka.tools.{tool}", "--bootstrap-server", servers, *words]
    with out.open("wb") as said, out.with_suffix(".err").open("wb") as complaints:
        process = subprocess.Popen(command, stdout=said, stderr=complaints)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def produce(
    servers: str, topic: str, records: Iterable[RecordParts], **settings: object
) -> list[tuple[int, int]]:
    """Publish records with librdkafka and return partition and offset of each, in order."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, **settings})
    reports: list[tuple[object, Message]] = []
    for key, value, headers in records:
        producer.produce(
            topic, key=key, value=value, headers=headers, on_delivery=lambda *it: reports.append(it)
        )
    assert producer.flush(PATIENCE) == 0
    assert [error for error, _ in reports if error is not None] == []
    return [(message.partition(), message.offset()) for _, message in reports]


def read(
    servers: str, topic: str, count: int, *, partition: int = 0, start: int = OFFSET_BEGINNING
) -> list[Message]:
    """Return ``count`` messages of one partition, read with librdkafka outside any group."""
    consumer = Consumer(settings_of(servers, "nobody", {"enable.auto.commit": False}))
    consumer.assign([TopicPartition(topic, partition, start)])
    try:
        found = consumer.consume(count, PATIENCE)
    finally:
        consumer.close()
    assert [message.error() for message in found if message.error()] == []
    return found


def settings_of(servers: str, group: str, more: Mapping[str, object]) -> dict[str, object]:
    return {
        "bootstrap.servers": servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        **more,
    }


def parts_of(message: Message) -> RecordParts:
    return message.key(), message.value(), message.headers() or []


def lines_of(text: str | bytes) -> Sequence[str]:
    return (text.decode() if isinstance(text, bytes) else text).splitlines()
