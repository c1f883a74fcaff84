"""Read and write topics of Pulsar by means that share no code with the driver under test.

These are the blocking classes of the library, and the command-line tools of Pulsar.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

import pulsar

from pulsar_install import install
from pulsar_server import java


class Stored(NamedTuple):
    """A message that a Pulsar topic has stored."""

    partition: int
    key: str
    body: str


def plain_client(service_url: str) -> pulsar.Client:
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    return pulsar.Client(service_url, logger=logger)


def send_batch(service_url: str, topic: str, count: int) -> None:
    """Send ``count`` messages as one batch entry, as a batching producer does."""
    client = plain_client(service_url)
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_publish_delay_ms=60_000,  # the flush ends the delay
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
    """Run a command-line class of Pulsar, which uses the Java client, and return its output."""
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
