"""Encode Produce requests of Kafka's protocol, and decode their answers.

A request carries the wire batches of all partitions of one leader. It is written by hand (ADR 0057): aiokafka
encodes and decodes by schemas in Python, and sends no requests of version 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from struct import error as BadStruct  # noqa: N812 - an exception
from typing import NamedTuple

from aiokafka.errors import KafkaError

from app.brokers.kafka.errors import KafkaRefusal

PRODUCE, API_VERSIONS, INIT_PRODUCER_ID = 0, 18, 22  # API keys

OLDEST = 3
"""The oldest version of Produce with batches of format 2. Older brokers (before Kafka 0.11) are not supported."""

NEWEST = NAMES_RECORDS = 8
"""The first version of Produce whose answer names the rejected records (KIP-467, Kafka 2.4)."""

_TOLD_START = 5  # the first version whose answer has the log start offset

Place = tuple[str, int]
"""Topic and partition number."""

_SHORT, _INT = Struct(">h"), Struct(">i")
_HEAD = Struct(">hhih")  # API key, version, correlation id, length of the client id
_SETTINGS = Struct(">hhii")  # transactional id (null), acks, time-out in ms, number of topics
_PLACE = Struct(">ii")  # partition, bytes of its batch
_ANSWER = Struct(">ihqq")  # partition, error code, first offset, append time
_PLAIN = Struct(
    ">ihqqqih"
)  # the same, log start offset, number of named records, length of the message
_VERSIONS = Struct(">hhh")  # API key, oldest version, newest version
_IDENTITY = Struct(">ihqh")  # throttle time, error code, producer id, epoch
_OF_ANY_TIME = 60_000  # ms: a broker uses this time-out only for transactions
_NULL = -1


class StoredAt(NamedTuple):
    """The answer for a wire batch that the broker stored. ``offset`` is None if the broker does not know it."""

    offset: int | None


class ProducerId(NamedTuple):
    """A producer id and its epoch, by which a broker recognises a wire batch that it has stored before."""

    producer: int
    epoch: int


NO_PRODUCER_ID = ProducerId(-1, -1)
"""The identity of producers that are not idempotent."""

Answer = StoredAt | KafkaRefusal


def head_of(api: int, version: int, correlation: int, client_id: bytes) -> bytes:
    """Return the header of a request, without the length in front of it."""
    return _HEAD.pack(api, version, correlation, len(client_id)) + client_id


def produce_request(
    batches: Mapping[str, Iterable[tuple[int, bytes]]], acks: int, timeout_ms: int
) -> list[bytes]:
    """Return the parts of a Produce request, without its header.

    Args:
        batches: Pairs of (partition, wire batch) by topic. No partition may occur twice.
        acks: -1 for all in-sync replicas, 1 for the leader, 0 for no answer.
        timeout_ms: How long the leader may wait for the replicas.
    """
    parts = [_SETTINGS.pack(_NULL, acks, timeout_ms, len(batches))]
    for topic, pairs in batches.items():
        name, of_topic = topic.encode(), list(pairs)
        parts += (_SHORT.pack(len(name)), name, _INT.pack(len(of_topic)))
        for partition, batch in of_topic:
            parts += (_PLACE.pack(partition, len(batch)), batch)
    return parts


def produce_answers(data: bytes, version: int) -> tuple[dict[Place, Answer], int]:
    """Return the answer for each partition, and the throttle time in ms. The broker reads nothing more from this client
    for that time. Raises struct.error, IndexError or UnicodeDecodeError for other data."""
    reader = _Reader(data)
    found: dict[Place, Answer] = {}
    for _ in range(reader.integer()):
        topic = reader.text()
        for _ in range(reader.integer()):
            partition, answer = _answer_of_one(reader, version)
            found[topic, partition] = answer
    return found, reader.integer()


def _answer_of_one(reader: _Reader, version: int) -> tuple[int, Answer]:
    if version >= NAMES_RECORDS:
        partition, code, offset, _, _, names, length = _PLAIN.unpack_from(reader.data, reader.at)
        if not code and names <= 0 and length <= 0:  # nearly all answers
            reader.at += _PLAIN.size
            return partition, StoredAt(offset)
    partition, code, offset, _ = reader.take(_ANSWER)
    reader.at += 8 * (version >= _TOLD_START)  # the log start offset
    named: dict[int, str] = {}
    words = ""
    if version >= NAMES_RECORDS:
        named = {reader.integer(): reader.text() for _ in range(reader.integer())}
        words = reader.text()
    return partition, _answer(code, offset, named, words)


def _answer(code: int, offset: int, named: Mapping[int, str], words: str) -> Answer:
    return KafkaRefusal(code, named, words) if code else StoredAt(offset)


def produce_version(answer: bytes) -> int | None:
    """Return the newest version of Produce that both sides have, from an answer to ApiVersions of version 0.
    Return None if they have none in common. Raises KafkaError for other data."""
    reader = _Reader(answer)
    try:
        reader.take(_SHORT)
        ranges = [reader.take(_VERSIONS) for _ in range(reader.integer())]
    except BadStruct as error:
        raise KafkaError(f"the answer to ApiVersions cannot be read: {error}") from error
    oldest, newest = next((pair for api, *pair in ranges if api == PRODUCE), (0, 0))
    return min(NEWEST, newest) if oldest <= NEWEST and newest >= OLDEST else None


def identity_request() -> list[bytes]:
    """Return the parts of an InitProducerId request of version 0, without its header."""
    return [_SHORT.pack(_NULL), _INT.pack(_OF_ANY_TIME)]


def identity_answer(data: bytes) -> tuple[int, ProducerId]:
    """Return the error code, and the new identity if the code is 0. Raises KafkaError for other data."""
    try:
        _, code, producer, epoch = _IDENTITY.unpack_from(data)
    except BadStruct as error:
        raise KafkaError(f"the answer to InitProducerId cannot be read: {error}") from error
    return code, ProducerId(producer, epoch)


class _Reader:
    """A read position in an answer. Null texts are read as empty, and null arrays as arrays without elements."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, struct: Struct) -> tuple[int, ...]:
        values = struct.unpack_from(self.data, self.at)
        self.at += struct.size
        return values

    def integer(self) -> int:
        (value,) = self.take(_INT)
        return value

    def text(self) -> str:
        (length,) = self.take(_SHORT)
        begin, self.at = self.at, self.at + max(0, length)
        return self.data[begin : self.at].decode()
