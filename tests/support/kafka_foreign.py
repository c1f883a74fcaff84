"""Clients of Kafka that were not written here: run, and what they say taken as it is."""

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

PATIENCE = 60.0  # seconds for what takes a moment when all is well

_CLASSES = HOME / "tools.jsa"  # as a JVM keeps them for the next; one of another is passed over
_JVM = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-Xlog:disable", "-Xlog:all=error:stderr")
_TOOLS = (
    "-XX:TieredStopAtLevel=1",  # most live for a second: starting is what they cost
    f"-Dlog4j2.configurationFile={HOME}/log4j2.xml",
    *("-cp", f"{JARS}/*"),
)
_JAVA = (*_JVM, f"-XX:SharedArchiveFile={_CLASSES}", *_TOOLS)

Seen = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Key, value and headers."""


def kcat(servers: str, *words: str, stdin: bytes = b"") -> bytes:
    command = ["kcat", "-b", servers, *words]
    result = subprocess.run(command, input=stdin, capture_output=True, timeout=180, check=False)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


def java(tool: str, servers: str, *words: str, stdin: bytes = b"") -> str:
    """What it says on standard output. ``tool``: the class below ``org.apache.kafka.tools``."""
    result = java_result(tool, servers, *words, stdin=stdin)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode()


def java_result(
    tool: str, servers: str, *words: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Some end with 0 and tell what went wrong on standard error only."""
    command = [*_JAVA, f"org.apache.kafka.tools.{tool}", "--bootstrap-server", servers, *words]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=180, check=False)


def keep_classes(servers: str) -> None:
    """Once in a checkout: what the tools load, by one that produces, consumes and asks for topics. A tool
    then starts in about half the CPU time; without it in all of it, and nothing else differs."""
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
    """The lines of JSON that the client of ``tests/kafka_clients/go`` says."""
    start = opinion_install.command(KAFKA_CLIENT, opinion_install.installed(KAFKA_CLIENT))
    command = [*start, verb, servers, topic, *words]
    result = subprocess.run(command, input=stdin, capture_output=True, timeout=180, check=False)
    assert result.returncode == 0, result.stderr.decode()
    return [json.loads(line) for line in result.stdout.splitlines()]


@contextmanager
def running_java(
    tool: str, servers: str, out: Path, *words: str
) -> Iterator[subprocess.Popen[bytes]]:
    """One that stays; it is gone in the end. What it says goes to ``out``."""
    command = [*_JAVA, f"org.apache.kafka.tools.{tool}", "--bootstrap-server", servers, *words]
    with out.open("wb") as said, out.with_suffix(".err").open("wb") as complaints:
        process = subprocess.Popen(command, stdout=said, stderr=complaints)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def produce(
    servers: str, topic: str, records: Iterable[Seen], **settings: object
) -> list[tuple[int, int]]:
    """By librdkafka. Partition and offset of each record, in order."""
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
    """``count`` messages of one partition, by librdkafka and without a group."""
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


def seen(message: Message) -> Seen:
    return message.key(), message.value(), message.headers() or []


def lines_of(text: str | bytes) -> Sequence[str]:
    return (text.decode() if isinstance(text, bytes) else text).splitlines()
