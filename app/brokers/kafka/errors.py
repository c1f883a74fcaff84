"""What an error of aiokafka means: for the caller, and for the producer that met it."""

from __future__ import annotations

import enum

from aiokafka import errors as kafka

from app.errors import BrokerError, BrokerRefused, BrokerUnavailable, PublishUnknown


class Abandoned(kafka.KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """Ours: a batch was kept from the wire because somebody aboard has had his answer (rule 9)."""

    retriable = False


class Next(enum.Enum):
    """What to do with the records of a wire batch that failed."""

    AGAIN = "send what is still unanswered again, by a new producer"
    NARROW = "the broker objects to one of them: send fewer at once until it stands alone"
    ANSWER = "tell the waiting callers"


_AGAIN = (
    Abandoned,
    kafka.OutOfOrderSequenceNumber,  # reliability 5.1: never works again with the same producer
    kafka.ProducerFenced,
    kafka.InvalidProducerEpoch,
    kafka.UnknownProducerId,
    kafka.ProducerClosed,
    kafka.CorruptRecordException,
    kafka.NotLeaderForPartitionError,
    kafka.LeaderNotAvailableError,
    kafka.KafkaTimeoutError,
)
_NARROW = (
    kafka.MessageSizeTooLargeError,
    kafka.RecordListTooLargeError,
    kafka.InvalidTimestampError,
    kafka.UnknownError,
)
_TOO_LARGE = (kafka.MessageSizeTooLargeError, kafka.RecordListTooLargeError)
_NOT_AUTHORISED = (
    kafka.TopicAuthorizationFailedError,
    kafka.GroupAuthorizationFailedError,
    kafka.ClusterAuthorizationFailedError,
    kafka.SaslAuthenticationFailed,
)
_UNKNOWN_TOPIC = (kafka.UnknownTopicOrPartitionError, kafka.InvalidTopicError)


def judge(error: BaseException) -> Next:
    """What becomes of a wire batch whose future ended in ``error``."""
    if isinstance(error, _AGAIN) or type(error) is kafka.KafkaError:
        return Next.AGAIN  # the bare class is what a sender task that died leaves behind
    return Next.NARROW if isinstance(error, _NARROW) else Next.ANSWER


def too_large(error: BaseException) -> bool:
    return isinstance(error, _TOO_LARGE)


def translate(error: BaseException, broker: str) -> BrokerError | None:
    """What the caller is told; None: it is a bug of ours."""
    if isinstance(error, BrokerError):
        return error
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    message = f"Kafka {broker} answered {text}"
    if isinstance(error, _TOO_LARGE):
        return BrokerRefused(message, kind="record-too-large", broker=broker)
    if isinstance(error, _NOT_AUTHORISED):
        return BrokerRefused(message, kind="not-authorised", broker=broker)
    if isinstance(error, _UNKNOWN_TOPIC):
        return BrokerRefused(message, kind="unknown-topic", broker=broker)
    if isinstance(error, kafka.RequestTimedOutError | kafka.KafkaTimeoutError):
        return PublishUnknown(message, broker=broker)
    if isinstance(error, kafka.InvalidTimestampError | kafka.PolicyViolationError):
        return BrokerRefused(message, broker=broker)
    if isinstance(error, kafka.KafkaError | OSError | TimeoutError):
        return BrokerUnavailable(message, broker=broker)
    return None
