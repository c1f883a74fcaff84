"""The offsets that a Kafka holds now, read with its Java client and the settings with which Spark
reads.

The offsets of a Pulsar are read from its admin API (``app.spark.pulsar.positions``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from app.errors import BrokerUnavailable, TopicsMissing
from app.spark.faults import is_any
from app.spark.pyspark_adapter import jvm
from app.spark.settings import KafkaPlace, PulsarPlace
from app.spark.source import Offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Where = Literal["earliest", "latest"] | datetime

_BYTES: Final = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_ENTRY: Final = re.compile(r"([\w.-]+)-(\d+)=(\d+)")
"""A topic, a partition and an offset, as Java writes them."""
_WITHIN: Final = "20000"  # ms for an answer
_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"  # how Kafka's client writes the absence of an id
_MISSING: Final = frozenset({"org.apache.kafka.common.errors.UnknownTopicOrPartitionException"})


class KafkaPositions:
    """A Kafka client that returns offsets; it is open inside ``with asking(...)``."""

    def __init__(self, jvm: Any, client: Any, place: KafkaPlace) -> None:
        self._jvm = jvm
        self._client = client
        self._place = place
        self._asked: dict[tuple[str, ...], Any] = {}

    def at(self, topics: Sequence[str], where: Where) -> Offsets:
        """Return an offset of each partition: the first stored, the next to be stored, or the first
        stored at or after a time.

        Raises:
            TopicsMissing: The message names each.
        """
        asked = self._partitions(topics)
        match where:
            case "latest":
                return _offsets(self._client.endOffsets(asked))
            case "earliest":
                return _offsets(self._client.beginningOffsets(asked))
            case _:
                return self._at_time(asked, where)

    def _partitions(self, topics: Sequence[str]) -> Any:
        """Return a list of Java with all partitions. It is kept: each object costs a call of Java."""
        key = tuple(topics)
        if key not in self._asked:
            known = self._client.listTopics()
            if absent := [topic for topic in topics if known.get(topic) is None]:
                raise TopicsMissing(
                    f"{self._place.broker} has no topic {', '.join(absent)}",
                    setting="pipeline.archive.topics",
                    cure="name topics that exist, or publish to them first",
                )
            made = self._jvm.org.apache.kafka.common.TopicPartition
            self._asked[key] = self._jvm.java.util.ArrayList()
            for topic in topics:
                for each in known.get(topic):
                    self._asked[key].add(made(topic, each.partition()))
        return self._asked[key]

    def _at_time(self, partitions: Any, moment: datetime) -> Offsets:
        asked = self._jvm.java.util.HashMap()
        for each in partitions:
            asked.put(each, round(moment.timestamp() * 1000))
        found = dict(self._client.endOffsets(partitions))
        times = self._client.offsetsForTimes(asked)
        for each in partitions:
            if (known := times[each]) is not None:
                found[each] = known.offset()
        offsets: dict[str, dict[int, int]] = {}
        for each, at in found.items():
            offsets.setdefault(str(each.topic()), {})[each.partition()] = int(at)
        return offsets


def _offsets(found: Any) -> Offsets:
    """Return a map of Java from partitions to offsets. Its text has all of it, at the cost of one call."""
    offsets: dict[str, dict[int, int]] = {}
    for topic, number, at in _ENTRY.findall(found.toString()):
        offsets.setdefault(topic, {})[int(number)] = int(at)
    return offsets


class PositionReader(Protocol):
    """A client that returns offsets, of Kafka or of Pulsar."""

    def at(self, topics: Sequence[str], where: Where) -> Offsets: ...


@contextmanager
def open_positions(
    spark: SparkSession, place: KafkaPlace | PulsarPlace
) -> Iterator[PositionReader]:
    """Connect to a broker inside the context, to read its offsets.

    Raises:
        BrokerUnavailable: The broker does not answer, or refuses the login.
    """
    if isinstance(place, PulsarPlace):
        from app.spark.pulsar.positions import PulsarPositions  # noqa: PLC0415 - imports an HTTP client

        yield PulsarPositions(place.cluster)
        return
    with _asking_kafka(spark, place) as positions:
        yield positions


def topic_ids(
    spark: SparkSession, place: KafkaPlace | PulsarPlace, topics: Sequence[str]
) -> dict[str, str]:
    """Return the id of each topic. A topic that was deleted and created again has another id.

    Topics that are missing, and topics of a broker without such ids, are left out. Pulsar needs
    none: its message ids never repeat.

    Raises:
        BrokerUnavailable: The broker does not answer, or refuses the login.
    """
    if isinstance(place, PulsarPlace):
        return {}
    with _client(spark, place, "admin.Admin.create") as admin:
        names = jvm(spark).java.util.ArrayList()
        for topic in topics:
            names.add(topic)
        found = dict[str, str]()
        for topic, answer in admin.describeTopics(names).topicNameValues().items():
            try:
                found[topic] = answer.get().topicId().toString()
            except Exception as error:
                if not is_any(error, _MISSING):
                    raise
        return {topic: known for topic, known in found.items() if known != _NO_ID}


@contextmanager
def _asking_kafka(spark: SparkSession, place: KafkaPlace) -> Iterator[KafkaPositions]:
    with _client(spark, place, "consumer.KafkaConsumer") as client:
        yield KafkaPositions(jvm(spark), client, place)


@contextmanager
def _client(spark: SparkSession, place: KafkaPlace, maker: str) -> Iterator[Any]:
    """Open a client of Kafka's Java library inside the context. ``maker`` is the name of its
    constructor in ``org.apache.kafka.clients``.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # noqa: PLC0415

    java = jvm(spark)
    settings = java.java.util.HashMap()
    own = {
        "bootstrap.servers": place.bootstrap_servers,
        "key.deserializer": _BYTES,
        "value.deserializer": _BYTES,
        "isolation.level": "read_committed",
        "default.api.timeout.ms": _WITHIN,
        "request.timeout.ms": "10000",
        **place.options,
    }
    for name, value in own.items():
        settings.put(name, value)
    client = None
    try:
        client = attrgetter(maker)(java.org.apache.kafka.clients)(settings)
        yield client
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        raise BrokerUnavailable(
            f"{place.broker} at {place.bootstrap_servers} does not answer: {cause.getMessage()}"
        ) from None
    finally:
        if client is not None:
            client.close()
