"""The undocumented parts of aiokafka that Skybridge uses, under its own names (ADR 0046).

============================== =====================================================================================
undocumented                   why it is needed, and the public alternative
============================== =====================================================================================
``_client``                    Correctness: a lease needs the times of heartbeats. An admin client cannot list offsets.
                               The sockets of a client whose ``stop`` hangs must be closed. No alternative.
``_coordinator``               Correctness: the generation is the epoch of ownership, and a commit has metadata.
                               No alternative: ``committed`` returns neither.
``FetchRequest``               One fetch of a node for all members of a process. Alternative: a consumer's own fetches.
                               With these, a hundred members would keep a hundred requests waiting at each node.
``MetadataRequest``            Correctness: describe_topics may create the topics that it asks about.
``OffsetRequest``              Correctness: ``end_offsets`` waits for a partition whose leader died, and for all others.
``AIOKafkaConnection``         The reason why a broker refuses a connection, which the client only logs. And a connection
                               that is authenticated, for Produce requests: ADR 0057 has the figures. No alternative.
``MemoryRecords``              Reading a batch: ADR 0046 has the figures. Alternative: a parser in Python.
``DefaultRecordBatchBuilder``  Writing a batch, here and on the Kafka listener. Alternative: an encoder in Python.
============================== =====================================================================================

For another version of aiokafka: run ``tests/unit/brokers/kafka``, ``tests/contract/test_kafka*.py``,
``tests/unit/kafka_listener`` and ``tests/faults/test_kafka_security.py`` with it, then add it to ``KNOWN``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from app.libraries.versions import demand

KNOWN = ("0.14",)

OFFSET_COMMIT, FIND_COORDINATOR, HEARTBEAT, SYNC_GROUP = (
    8,
    10,
    12,
    14,
)  # API keys of Kafka's protocol
_READ_COMMITTED = 1
_ANY_REPLICA = -1
_FORMAT = 2


class Authenticated(NamedTuple):
    """An open connection to one broker. Keep ``connection``: a connection that is forgotten closes itself."""

    connection: AIOKafkaConnection
    transport: asyncio.Transport


async def connect_once(host: str, port: int, **options: Any) -> Authenticated:
    """Open one connection to one broker and authenticate it. ``close`` of the connection ends it.

    Raises KafkaError, OSError or TimeoutError.
    """
    connection = AIOKafkaConnection(host, port, **options)
    _, writer = await connection.connect()
    return Authenticated(connection, writer.transport)


def demand_known_aiokafka() -> None:
    """Raise SetupError if the installed version of aiokafka is not one of ``KNOWN``."""
    demand("aiokafka", KNOWN, "app/brokers/aiokafka_adapter.py")


def client_of(outer: AIOKafkaConsumer | AIOKafkaAdminClient) -> Any:
    """Return the AIOKafkaClient inside a consumer or an admin client."""
    return outer._client  # noqa: SLF001


def coordinator_of(consumer: AIOKafkaConsumer) -> Any:
    """Return the group coordinator of a consumer, with its ``generation`` and ``fetch_committed_offsets``."""
    return consumer._coordinator  # noqa: SLF001


def metadata_request(topics: Collection[str] | None) -> Any:
    """Build a Metadata request for ``topics``, or for all topics if None. The broker creates none of them."""
    named = None if topics is None else list(topics)
    return MetadataRequest(named, allow_auto_topic_creation=False)


def offsets_request(topics: Mapping[str, list[tuple[int, int]]]) -> Any:
    """Build a ListOffsets request.

    Args:
        topics: Pairs of (partition, time in ms) by topic. The end of a partition is that of committed
            records.
    """
    return OffsetRequest(_ANY_REPLICA, _READ_COMMITTED, list(topics.items()))


def fetch_request(
    topics: Mapping[str, list[tuple[int, int, int]]], wait_ms: int, most_bytes: int
) -> Any:
    """Build a Fetch request for committed records.

    Args:
        topics: Triples of (partition, offset, most bytes) by topic.
        wait_ms: How long the broker may wait for records, in ms.
        most_bytes: The largest answer, in bytes.
    """
    return FetchRequest(wait_ms, 1, most_bytes, _READ_COMMITTED, list(topics.items()), rack_id="")


def batches_of(raw: bytes) -> Iterator[Any]:
    """Yield the complete batches at the beginning of ``raw``, of any format. Raises CorruptRecordException."""
    found = MemoryRecords(raw)
    while found.has_next():
        yield found.next_batch()


def batch_builder(
    size: int, codec: int = 0, producer: int = -1, epoch: int = -1, sequence: int = -1
) -> Any:
    """Return an empty builder of a batch of format 2.

    Args:
        size: The most bytes of the batch.
        codec: The number of the compression codec. 0 is none.
        producer: The producer id, or -1.
        epoch: The epoch of the producer id, or -1.
        sequence: The sequence number of the first record, or -1.
    """
    return DefaultRecordBatchBuilder(_FORMAT, codec, 0, producer, epoch, sequence, size)


__all__: Sequence[str] = [
    "HEARTBEAT",
    "OFFSET_COMMIT",
    "SYNC_GROUP",
    "batch_builder",
    "batches_of",
    "client_of",
    "connect_once",
    "coordinator_of",
    "demand_known_aiokafka",
    "fetch_request",
    "metadata_request",
    "offsets_request",
]
