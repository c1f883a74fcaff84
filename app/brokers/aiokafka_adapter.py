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
``ProduceRequest_v8``          Correctness: the broker names the records that it rejects (KIP-467).
``create_conn``                The reason why a broker refuses a connection, which the client only logs.
``MemoryRecords``              Reading a batch: ADR 0046 has the figures. Alternative: a parser in Python.
``DefaultRecordBatchBuilder``  Writing a batch, on the Kafka listener. Alternative: an encoder in Python.
============================== =====================================================================================

For another version of aiokafka: run ``tests/unit/brokers/kafka``, ``tests/contract/test_kafka*.py``,
``tests/unit/kafka_listener`` and ``tests/faults/test_kafka_security.py`` with it, then add it to ``KNOWN``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import create_conn
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.protocol.produce import ProduceRequest_v8
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from app.libraries.versions import demand

KNOWN = ("0.14",)

PRODUCE, HEARTBEAT, SYNC_GROUP = 0, 12, 14  # API keys of Kafka's protocol
NAMES_RECORDS = 8  # the first version of Produce whose answer names the rejected records
_READ_COMMITTED = 1
_ANY_REPLICA = -1
_FORMAT = 2

connect_once = create_conn
"""Open one connection to one broker and authenticate it. Raises KafkaError, OSError."""


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


def newest_produce(request: Any) -> Any:
    """Build a Produce request in the version whose answer names rejected records. Its ``topics`` hold the
    batches."""
    return request.build(ProduceRequest_v8)


def batches_of(raw: bytes) -> Iterator[Any]:
    """Yield the complete batches at the beginning of ``raw``, of any format. Raises CorruptRecordException."""
    found = MemoryRecords(raw)
    while found.has_next():
        yield found.next_batch()


def batch_builder(size: int) -> Any:
    """Return an empty builder of a batch of format 2 without compression or producer id, of at most
    ``size`` bytes."""
    return DefaultRecordBatchBuilder(
        magic=_FORMAT,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=size,
    )


__all__: Sequence[str] = [
    "HEARTBEAT",
    "NAMES_RECORDS",
    "PRODUCE",
    "SYNC_GROUP",
    "batch_builder",
    "batches_of",
    "client_of",
    "connect_once",
    "coordinator_of",
    "demand_known_aiokafka",
    "fetch_request",
    "metadata_request",
    "newest_produce",
    "offsets_request",
]
