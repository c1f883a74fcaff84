"""What an error of Kafka or of aiokafka means: for the caller, and for the producer that met it.

The table ``CODES`` decides what Kafka's answers to Produce mean. A code outside the table leaves open whether
the record is at fault: ``Topic.doubts`` of the batcher decides by what the topic takes meanwhile.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from aiokafka import errors as kafka

from app.errors import (
    BrokerError,
    BrokerRefused,
    BrokerUnavailable,
    PublishUnknown,
    UnclearRefusal,
)


class Abandoned(kafka.KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """Ours: a batch was kept from the wire because somebody aboard has had his answer (rule 9)."""

    retriable = False


class Next(enum.Enum):
    """What to do with the records of a wire batch that failed."""

    AGAIN = "send what is still unanswered again, by a new producer"
    NARROW = "the broker objects to one of them: send fewer at once until it stands alone"
    ANSWER = "tell the waiting callers"


class Row(NamedTuple):
    """``kind``: of the BrokerRefused that callers get; empty for an error that time mends."""

    name: str
    next: Next
    kind: str = ""


_A, _N, _T = Next.AGAIN, Next.NARROW, Next.ANSWER
CODES: Mapping[int, Row] = {
    3: Row("UNKNOWN_TOPIC_OR_PARTITION", _T, "unknown-topic"),
    5: Row("LEADER_NOT_AVAILABLE", _A),
    6: Row("NOT_LEADER_OR_FOLLOWER", _A),
    7: Row("REQUEST_TIMED_OUT", _T),
    8: Row("BROKER_NOT_AVAILABLE", _T),
    9: Row("REPLICA_NOT_AVAILABLE", _T),
    10: Row("MESSAGE_TOO_LARGE", _N, "record-too-large"),
    13: Row("NETWORK_EXCEPTION", _T),
    14: Row("COORDINATOR_LOAD_IN_PROGRESS", _T),
    15: Row("COORDINATOR_NOT_AVAILABLE", _T),
    16: Row("NOT_COORDINATOR", _T),
    17: Row("INVALID_TOPIC_EXCEPTION", _T, "unknown-topic"),
    18: Row("RECORD_LIST_TOO_LARGE", _N, "record-too-large"),
    19: Row("NOT_ENOUGH_REPLICAS", _T),
    20: Row("NOT_ENOUGH_REPLICAS_AFTER_APPEND", _T),
    21: Row("INVALID_REQUIRED_ACKS", _T, "other"),
    29: Row("TOPIC_AUTHORIZATION_FAILED", _T, "not-authorised"),
    30: Row("GROUP_AUTHORIZATION_FAILED", _T, "not-authorised"),
    31: Row("CLUSTER_AUTHORIZATION_FAILED", _T, "not-authorised"),
    32: Row("INVALID_TIMESTAMP", _N, "rejected"),
    33: Row("UNSUPPORTED_SASL_MECHANISM", _T),
    34: Row("ILLEGAL_SASL_STATE", _T),
    35: Row("UNSUPPORTED_VERSION", _T, "other"),
    41: Row("NOT_CONTROLLER", _T),
    42: Row("INVALID_REQUEST", _T, "other"),
    43: Row("UNSUPPORTED_FOR_MESSAGE_FORMAT", _T, "other"),
    44: Row("POLICY_VIOLATION", _N, "rejected"),
    45: Row(
        "OUT_OF_ORDER_SEQUENCE_NUMBER", _A
    ),  # reliability 5.1: it lasts as long as the producer
    46: Row("DUPLICATE_SEQUENCE_NUMBER", _A),
    47: Row("INVALID_PRODUCER_EPOCH", _A),
    49: Row("INVALID_PRODUCER_ID_MAPPING", _A),
    53: Row("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", _T, "not-authorised"),
    56: Row("KAFKA_STORAGE_ERROR", _T),
    58: Row("SASL_AUTHENTICATION_FAILED", _T, "not-authorised"),
    59: Row("UNKNOWN_PRODUCER_ID", _A),
    60: Row("REASSIGNMENT_IN_PROGRESS", _T),
    72: Row("LISTENER_NOT_FOUND", _T),
    74: Row("FENCED_LEADER_EPOCH", _A),
    75: Row("UNKNOWN_LEADER_EPOCH", _A),
    76: Row("UNSUPPORTED_COMPRESSION_TYPE", _T, "other"),
    77: Row("STALE_BROKER_EPOCH", _T),
    80: Row("PREFERRED_LEADER_NOT_AVAILABLE", _T),
    83: Row("ELIGIBLE_LEADERS_NOT_AVAILABLE", _T),
    87: Row("INVALID_RECORD", _N, "rejected"),
    89: Row("THROTTLING_QUOTA_EXCEEDED", _T),
    90: Row("PRODUCER_FENCED", _A),
    100: Row("UNKNOWN_TOPIC_ID", _T, "unknown-topic"),
}
"""What Kafka may answer to Produce. -1 (UNKNOWN_SERVER_ERROR) and 2 (CORRUPT_MESSAGE) are left out: brokers use
them for faults of their own and of the wire, and for records that they refuse."""

_KEYLESS = (
    "it is probably compacted, and the record has no key",
    "give the events a key (key of the route), or set cleanup.policy of the topic to delete",
)
_RULE = (
    "a rule of the topic, such as its schema, rejects the record",
    "change the event, or the rule of the topic",
)
_TOO_LARGE = (
    "the record is larger than max.message.bytes",
    "send a smaller event, or raise max.message.bytes of the topic",
)
_NO_RIGHT = (
    "Skybridge may not write to it",
    "grant the right to write to the user that Skybridge logs in as",
)
_CAUSES = {  # with their cures, by code
    3: ("there is no such topic", "create it, or set topics.create"),
    10: _TOO_LARGE,
    17: ("Kafka allows no such name", "use letters, digits, '.', '_' and '-', at most 249"),
    18: _TOO_LARGE,
    21: ("Kafka does not take these acknowledgements", "leave durability of the route out"),
    29: _NO_RIGHT,
    30: _NO_RIGHT,
    31: _NO_RIGHT,
    32: (
        "the time of the record is outside message.timestamp.before.max.ms and .after.max.ms",
        "synchronise the clocks of Skybridge and Kafka, or widen these bounds of the topic",
    ),
    35: ("Kafka is too old or too new for this request", "use a version that the guide names"),
    42: ("Kafka does not understand the request", "look into the log of the broker"),
    43: ("its message format has no headers", "raise the message format version of the topic"),
    44: (
        "a policy of the cluster rejects the record",
        "change the event, or the policy of the cluster",
    ),
    53: _NO_RIGHT,
    58: ("the login is refused", "correct security.sasl of the broker"),
    76: ("the topic does not take this compression", "set compression of the broker to another"),
    100: ("it was deleted, and made again", "send the event again"),
}
_DEMANDS_KEY = "without key"  # in the words of Kafka, for a record of a compacted topic
_CLIPPED = 300  # characters of the broker's own words
_CLIENT_AGAIN = (
    Abandoned, kafka.ProducerFenced, kafka.ProducerClosed, kafka.KafkaTimeoutError,
)  # fmt: skip


class Refusal(NamedTuple):
    """Kafka's answer to the wire batch of one partition. ``records``: the broker's words for each record that it
    objects to, by index in the batch; empty where the broker names none."""

    code: int
    records: Mapping[int, str] = MappingProxyType({})
    words: str = ""

    @property
    def name(self) -> str:
        return CODES[self.code].name if self.code in CODES else f"error code {self.code}"

    @property
    def kind(self) -> str:
        """The kind of a BrokerRefused; empty for a code that time mends, or that the table does not have."""
        return CODES[self.code].kind if self.code in CODES else ""

    @property
    def is_clear(self) -> bool:
        """Whether the table says what the code means."""
        return self.code in CODES

    def demands_key(self, index: int) -> bool:
        """Whether the record of the batch is refused because its topic takes none without a key."""
        return self.kind == "rejected" and _DEMANDS_KEY in self.records[index]

    @property
    def is_too_large(self) -> bool:
        return self.kind == "record-too-large"


def refusal_of(error: BaseException, answered: Refusal | None = None) -> Refusal | None:
    """Return what Kafka refused, or None for an error of the client. ``answered``: the answer as it was on the
    wire, because the client has no class for many codes, and passes on no words."""
    if not isinstance(error, kafka.BrokerResponseError):
        return None
    known = answered is not None and error.errno == answered.code
    if answered is not None and (known or isinstance(error, kafka.UnknownError)):
        return answered
    return Refusal(error.errno)


def judge(error: BaseException, refusal: Refusal | None = None) -> Next:
    """Return what becomes of a wire batch whose future ended in ``error``."""
    refusal = refusal or refusal_of(error)
    if refusal is not None:
        return CODES[refusal.code].next if refusal.is_clear else Next.NARROW
    is_bare = type(error) is kafka.KafkaError  # what a sender task that died leaves behind
    return Next.AGAIN if is_bare or isinstance(error, _CLIENT_AGAIN) else Next.ANSWER


def explain(
    refusal: Refusal, broker: str, topic: str, key: bytes | None = None, words: str = ""
) -> BrokerError:
    """Return the fate of a record that Kafka refused. ``words``: the broker's own for this record."""
    words = (words or refusal.words)[:_CLIPPED]
    if refusal.kind:
        return refused(refusal, broker, topic, key, words)
    message = f"Kafka {broker} answered {refusal.name} for topic {topic}{words and f': {words}'}"
    if not refusal.is_clear:
        doubt = "whether the record or the topic is at fault is not known yet"
        return UnclearRefusal(
            f"{message}; {doubt}. Cure: look into the log of the broker", broker=broker
        )
    if refusal.code == kafka.RequestTimedOutError.errno:
        return PublishUnknown(message, broker=broker)
    return BrokerUnavailable(message, broker=broker)


def refused(
    refusal: Refusal, broker: str, topic: str, key: bytes | None = None, words: str = ""
) -> BrokerRefused:
    """Return the error of what Kafka refuses for good: the topic, the likely cause and the cure."""
    cause, cure = _CAUSES.get(refusal.code, _KEYLESS if key is None else _RULE)
    text = f"Kafka {broker} refused a record for topic {topic} ({refusal.name}): {words or cause}. Cure: {cure}"
    return BrokerRefused(text, kind=refusal.kind or "rejected", broker=broker)


def translate(error: BaseException, broker: str) -> BrokerError | None:
    """Return what the caller is told; None for a defect of Skybridge. A refusal here is of a question, not of a
    record."""
    if isinstance(error, BrokerError):
        return error
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    message = f"Kafka {broker} answered {text}"
    refusal = refusal_of(error)
    if isinstance(error, kafka.RequestTimedOutError | kafka.KafkaTimeoutError):
        return PublishUnknown(message, broker=broker)
    if refusal is not None and refusal.kind not in {"", "other"}:
        kind = "other" if refusal.kind == "rejected" else refusal.kind
        return BrokerRefused(message, kind=kind, broker=broker)
    if isinstance(error, kafka.KafkaError | OSError | TimeoutError):
        return BrokerUnavailable(message, broker=broker)
    return None
