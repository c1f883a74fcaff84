"""The meaning of errors of Kafka and of aiokafka, for the caller of publish and for the publisher.

The table ``CODES`` defines the meaning of Kafka's answers to Produce. A code outside the table does not show
whether the record is at fault. Then ``TopicBatchers.doubts`` decides: if the topic stores other records in
the meantime, the record is at fault.
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


class FailureAction(enum.Enum):
    """An action for the records of a wire batch that failed."""

    RESEND = "send the same wire batch again; the broker recognises it if it has stored it"
    AGAIN = "send the unanswered records again with a new producer id"
    NARROW = "the broker rejects one of the records: send smaller batches to find it"
    ANSWER = "fail the records"


class CodeMeaning(NamedTuple):
    """The meaning of an error code. ``kind`` is the kind of the BrokerRefused that callers get. It is empty
    for a temporary error."""

    name: str
    next: FailureAction
    kind: str = ""


_R, _A = FailureAction.RESEND, FailureAction.AGAIN
_N, _T = FailureAction.NARROW, FailureAction.ANSWER
CODES: Mapping[int, CodeMeaning] = {
    3: CodeMeaning("UNKNOWN_TOPIC_OR_PARTITION", _R, "unknown-topic"),
    5: CodeMeaning("LEADER_NOT_AVAILABLE", _R),
    6: CodeMeaning("NOT_LEADER_OR_FOLLOWER", _R),
    7: CodeMeaning("REQUEST_TIMED_OUT", _R),
    8: CodeMeaning("BROKER_NOT_AVAILABLE", _T),
    9: CodeMeaning("REPLICA_NOT_AVAILABLE", _T),
    10: CodeMeaning("MESSAGE_TOO_LARGE", _N, "record-too-large"),
    13: CodeMeaning("NETWORK_EXCEPTION", _T),
    14: CodeMeaning("COORDINATOR_LOAD_IN_PROGRESS", _R),
    15: CodeMeaning("COORDINATOR_NOT_AVAILABLE", _R),
    16: CodeMeaning("NOT_COORDINATOR", _R),
    17: CodeMeaning("INVALID_TOPIC_EXCEPTION", _T, "unknown-topic"),
    18: CodeMeaning("RECORD_LIST_TOO_LARGE", _N, "record-too-large"),
    19: CodeMeaning("NOT_ENOUGH_REPLICAS", _R),
    20: CodeMeaning("NOT_ENOUGH_REPLICAS_AFTER_APPEND", _R),
    21: CodeMeaning("INVALID_REQUIRED_ACKS", _T, "other"),
    29: CodeMeaning("TOPIC_AUTHORIZATION_FAILED", _T, "not-authorised"),
    30: CodeMeaning("GROUP_AUTHORIZATION_FAILED", _T, "not-authorised"),
    31: CodeMeaning("CLUSTER_AUTHORIZATION_FAILED", _T, "not-authorised"),
    32: CodeMeaning("INVALID_TIMESTAMP", _N, "rejected"),
    33: CodeMeaning("UNSUPPORTED_SASL_MECHANISM", _T),
    34: CodeMeaning("ILLEGAL_SASL_STATE", _T),
    35: CodeMeaning("UNSUPPORTED_VERSION", _T, "other"),
    41: CodeMeaning("NOT_CONTROLLER", _R),
    42: CodeMeaning("INVALID_REQUEST", _T, "other"),
    43: CodeMeaning("UNSUPPORTED_FOR_MESSAGE_FORMAT", _T, "other"),
    44: CodeMeaning("POLICY_VIOLATION", _N, "rejected"),
    45: CodeMeaning("OUT_OF_ORDER_SEQUENCE_NUMBER", _A),  # lasts until the producer id is replaced
    46: CodeMeaning("DUPLICATE_SEQUENCE_NUMBER", _A),
    47: CodeMeaning("INVALID_PRODUCER_EPOCH", _A),
    49: CodeMeaning("INVALID_PRODUCER_ID_MAPPING", _A),
    53: CodeMeaning("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", _T, "not-authorised"),
    56: CodeMeaning("KAFKA_STORAGE_ERROR", _R),
    58: CodeMeaning("SASL_AUTHENTICATION_FAILED", _T, "not-authorised"),
    59: CodeMeaning("UNKNOWN_PRODUCER_ID", _A),
    60: CodeMeaning("REASSIGNMENT_IN_PROGRESS", _T),
    72: CodeMeaning("LISTENER_NOT_FOUND", _T),
    74: CodeMeaning("FENCED_LEADER_EPOCH", _A),
    75: CodeMeaning("UNKNOWN_LEADER_EPOCH", _A),
    76: CodeMeaning("UNSUPPORTED_COMPRESSION_TYPE", _T, "other"),
    77: CodeMeaning("STALE_BROKER_EPOCH", _T),
    80: CodeMeaning("PREFERRED_LEADER_NOT_AVAILABLE", _T),
    83: CodeMeaning("ELIGIBLE_LEADERS_NOT_AVAILABLE", _T),
    87: CodeMeaning("INVALID_RECORD", _N, "rejected"),
    89: CodeMeaning("THROTTLING_QUOTA_EXCEEDED", _T),
    90: CodeMeaning("PRODUCER_FENCED", _A),
    100: CodeMeaning("UNKNOWN_TOPIC_ID", _T, "unknown-topic"),
}
"""Error codes that Kafka may return to Produce. Codes -1 (UNKNOWN_SERVER_ERROR) and 2 (CORRUPT_MESSAGE) are left out.
Brokers use them for their own faults, for faults of the network, and for records that they reject."""

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
_CAUSES = {  # by code: the likely cause and its cure
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
    100: ("the topic was deleted and created again", "send the event again"),
}
_DEMANDS_KEY = "without key"  # in Kafka's message for a record of a compacted topic
_CLIPPED = 300  # most characters of the broker's message that an error quotes
_STALE = frozenset({3, 5, 6, 56})  # the partition may have another leader
_REPETITION = 46
_IN_DOUBT = frozenset({7, 20, 56})  # the leader may have appended the batch


class KafkaRefusal(NamedTuple):
    """Kafka's error answer for the wire batch of one partition.

    Attributes:
        code: The error code.
        records: The broker's message for each rejected record, by index in the batch. Empty if the broker
            names no record.
        words: The broker's message for the batch.
    """

    code: int
    records: Mapping[int, str] = MappingProxyType({})
    words: str = ""

    @property
    def name(self) -> str:
        return CODES[self.code].name if self.code in CODES else f"error code {self.code}"

    @property
    def kind(self) -> str:
        """Return the kind of the BrokerRefused that callers get. It is empty for a temporary error, or for a
        code outside the table."""
        return CODES[self.code].kind if self.code in CODES else ""

    @property
    def is_clear(self) -> bool:
        """Return True if the table ``CODES`` has the meaning of the code."""
        return self.code in CODES

    def demands_key(self, index: int) -> bool:
        """Return True if the record was rejected because its topic accepts no record without a key."""
        return self.kind == "rejected" and _DEMANDS_KEY in self.records[index]

    @property
    def is_of_stale_metadata(self) -> bool:
        """Return True if another node may lead the partition."""
        return self.code in _STALE

    @property
    def is_repetition(self) -> bool:
        """Return True if the broker knows the numbers of the batch, and has forgotten its offset."""
        return self.code == _REPETITION

    @property
    def is_in_doubt(self) -> bool:
        """Return True if the leader may have stored the batch nevertheless."""
        return self.code in _IN_DOUBT

    @property
    def is_too_large(self) -> bool:
        return self.kind == "record-too-large"


def refusal_of(error: BaseException) -> KafkaRefusal | None:
    """Return Kafka's error answer, or None for an error of the client."""
    return KafkaRefusal(error.errno) if isinstance(error, kafka.BrokerResponseError) else None


def judge(refusal: KafkaRefusal) -> FailureAction:
    """Return what to do with the records of a wire batch that Kafka did not confirm as stored."""
    return CODES[refusal.code].next if refusal.is_clear else FailureAction.NARROW


def explain(
    refusal: KafkaRefusal, broker: str, topic: str, key: bytes | None = None, words: str = ""
) -> BrokerError:
    """Return the error for a record that Kafka did not store. ``words`` is the broker's message for this
    record."""
    words = (words or refusal.words)[:_CLIPPED]
    if refusal.kind:
        return refused(refusal, broker, topic, key, words)
    message = f"Kafka {broker} answered {refusal.name} for topic {topic}{words and f': {words}'}"
    if not refusal.is_clear:
        doubt = "it is not known yet whether the record or the topic is at fault"
        return UnclearRefusal(
            f"{message}; {doubt}. Cure: look into the log of the broker", broker=broker
        )
    if refusal.code == kafka.RequestTimedOutError.errno:
        return PublishUnknown(message, broker=broker)
    return BrokerUnavailable(message, broker=broker)


def refused(
    refusal: KafkaRefusal, broker: str, topic: str, key: bytes | None = None, words: str = ""
) -> BrokerRefused:
    """Return the error for a record that Kafka rejects permanently, with the topic, the likely cause and
    the cure."""
    cause, cure = _CAUSES.get(refusal.code, _KEYLESS if key is None else _RULE)
    text = f"Kafka {broker} refused a record for topic {topic} ({refusal.name}): {words or cause}. Cure: {cure}"
    return BrokerRefused(text, kind=refusal.kind or "rejected", broker=broker)


def translate(error: BaseException, broker: str) -> BrokerError | None:
    """Return the broker error for the caller, or None if ``error`` is a bug of Skybridge.

    An error code of Kafka gets the meaning that it has in the answer to a request other than Produce.
    """
    if isinstance(error, BrokerError):
        return error
    message = f"Kafka {broker} answered {_named(error)}"
    refusal = refusal_of(error)
    if isinstance(error, kafka.RequestTimedOutError | kafka.KafkaTimeoutError):
        return PublishUnknown(message, broker=broker)
    if refusal is not None and refusal.kind not in {"", "other"}:
        kind = "other" if refusal.kind == "rejected" else refusal.kind
        return BrokerRefused(message, kind=kind, broker=broker)
    if isinstance(error, kafka.KafkaError | OSError | TimeoutError):
        return BrokerUnavailable(message, broker=broker)
    return None


def _named(error: BaseException) -> str:
    """Return the name of the error and its text. Errors of aiokafka begin their text with their name."""
    name, text = type(error).__name__, str(error)
    if not text or name in text:
        return text or name
    return f"{name}: {text}"
