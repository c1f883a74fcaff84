"""What is used of aiokafka beside its documented classes, under names of ours (ADR 0046).

============================== =====================================================================================
undocumented                   gain, and the public alternative
============================== =====================================================================================
``_client``                    correctness: a lease needs to see heartbeats leave, an admin client cannot list offsets,
                               and the sockets of a client whose ``stop`` hangs must be closed. None.
``_coordinator``               correctness: the generation is the epoch of ownership, and a commit has metadata. None:
                               ``committed`` gives neither.
``FetchRequest``               one fetch of a node for all members of a process. A consumer's own fetches: a hundred
                               members would each keep a request waiting at every node.
``MetadataRequest``            correctness: ``describe_topics`` may create the topics that it asks about.
``OffsetRequest``              correctness: ``end_offsets`` waits for a partition whose leader died, and for all others.
``ProduceRequest_v8``          correctness: the broker names the records that it refuses (KIP-467).
``create_conn``                why a broker refuses a connection, which the client only logs.
``MemoryRecords``              reading a batch: see ADR 0046 for the figures. An own parser in Python.
``DefaultRecordBatchBuilder``  writing one, on the Kafka listener. An own encoder in Python.
============================== =====================================================================================

For another version of aiokafka: run ``tests/unit/brokers/kafka``, ``tests/contract/test_kafka*.py``,
``tests/unit/kafka_listener`` and ``tests/faults/test_kafka_security.py`` with it, then name it in ``KNOWN``.
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

PRODUCE, HEARTBEAT, SYNC_GROUP = 0, 12, 14  # keys of requests, as Kafka's protocol has them
NAMES_RECORDS = (
    8  # the version of Produce since which the answer says which records are refused, and why
)
_READ_COMMITTED = 1
_ANY_REPLICA = -1
_FORMAT = 2

connect_once = create_conn
"""Open and log in one connection to one broker. Raises KafkaError, OSError."""


def demand_known_aiokafka() -> None:
    """Raise SetupError if another version is installed."""
    demand("aiokafka", KNOWN, "app/brokers/aiokafka_adapter.py")


def client_of(outer: AIOKafkaConsumer | AIOKafkaAdminClient) -> Any:
    """Return the AIOKafkaClient inside a consumer or an admin client."""
    return outer._client  # noqa: SLF001


def coordinator_of(consumer: AIOKafkaConsumer) -> Any:
    """Return what keeps a consumer's place in its group: ``generation``, ``fetch_committed_offsets``."""
    return consumer._coordinator  # noqa: SLF001


def metadata_request(topics: Collection[str] | None) -> Any:
    """Ask about ``topics``, None for all, and create none."""
    named = None if topics is None else list(topics)
    return MetadataRequest(named, allow_auto_topic_creation=False)


def offsets_request(topics: Mapping[str, list[tuple[int, int]]]) -> Any:
    """Ask for the offsets of (partition, time in ms); the end is where readers of committed records end."""
    return OffsetRequest(_ANY_REPLICA, _READ_COMMITTED, list(topics.items()))


def fetch_request(
    topics: Mapping[str, list[tuple[int, int, int]]], wait_ms: int, most_bytes: int
) -> Any:
    """Ask for records of (partition, offset, most bytes), committed ones."""
    return FetchRequest(wait_ms, 1, most_bytes, _READ_COMMITTED, list(topics.items()), rack_id="")


def newest_produce(request: Any) -> Any:
    """Return a Produce request in the version that the broker answers with words; ``topics`` are its places."""
    return request.build(ProduceRequest_v8)


def batches_of(raw: bytes) -> Iterator[Any]:
    """Yield the whole batches at the beginning of ``raw``, of any format. Raises CorruptRecordException."""
    found = MemoryRecords(raw)
    while found.has_next():
        yield found.next_batch()


def batch_builder(size: int) -> Any:
    """Return an empty batch of format 2, without compression and producer, of at most ``size`` bytes."""
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
