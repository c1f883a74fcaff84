"""What is in a topic of Pulsar, and what others put there, by the library's own blocking classes
and by Pulsar's own tools, which share no code with the driver."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

import pulsar

from pulsar_install import install
from pulsar_server import java


class Stored(NamedTuple):
    """One message, in the order of its partition."""

    partition: int
    key: str
    body: str


def plain_client(service_url: str) -> pulsar.Client:
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    return pulsar.Client(service_url, logger=logger)


def send_batch(service_url: str, topic: str, count: int) -> None:
    """One entry that holds so many messages, as a producer that batches writes it."""
    client = plain_client(service_url)
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_publish_delay_ms=60_000,  # it ends with the flush
    )
    for number in range(count):
        producer.send_async(b"%d" % number, lambda _result, _message_id: None, partition_key="k")
    producer.flush()
    client.close()


def read_back(service_url: str, topic: str, partitions: int) -> list[Stored]:
    client = plain_client(service_url)
    try:
        return [
            stored
            for number in range(partitions)
            for stored in _partition(client, f"{topic}-partition-{number}", number)
        ]
    finally:
        client.close()


def _partition(client: pulsar.Client, name: str, number: int) -> list[Stored]:
    reader = client.create_reader(name, pulsar.MessageId.earliest)
    found = []
    while reader.has_message_available():
        message = reader.read_next(timeout_millis=60_000)
        found.append(Stored(number, message.partition_key(), message.data().decode()))
    reader.close()
    return found


def run_tool(tool: str, arguments: Sequence[str]) -> str:
    """Output of one of Pulsar's own command-line classes, which use its Java client."""
    home = install()
    options = (
        f"-Dlog4j.configurationFile={home}/log4j2.xml",
        "-Dstdout.encoding=UTF-8",
        "-Dfile.encoding=UTF-8",
    )
    command = [
        *java(home, *options),
        f"org.apache.pulsar.client.cli.{tool}",
        os.devnull,
        *arguments,
    ]
    result = subprocess.run(command, capture_output=True, timeout=180, check=False)
    if result.returncode:
        raise RuntimeError(f"{tool} failed: {result.stderr.decode()[-2000:]}")
    return result.stdout.decode()
