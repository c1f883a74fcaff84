"""Map errors of Skybridge to the error codes of Kafka's protocol."""

from __future__ import annotations

from app.errors import BoundReached, BrokerRefused, BrokerUnavailable, PositionOutOfRange
from app.kafka_listener.wire import ErrorCode

_REFUSED = {
    "unknown-topic": ErrorCode.unknown_topic_or_partition,
    "fenced": ErrorCode.invalid_producer_epoch,
    "out-of-order": ErrorCode.out_of_order_sequence_number,
    "record-too-large": ErrorCode.message_too_large,
    "not-authorised": ErrorCode.topic_authorization_failed,
}


class KafkaRequestRefused(Exception):
    """The error for a part of a request that is answered with an error code. ``faults`` has pairs
    of a record index and a reason.
    """

    def __init__(
        self, code: ErrorCode, message: str, faults: tuple[tuple[int, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.faults = faults


def demand(code: ErrorCode, message: str) -> None:
    """Raise RequestRefused for any code except success."""
    if code is not ErrorCode.none:
        raise KafkaRequestRefused(code, message)


def code_of(error: Exception) -> ErrorCode:
    """Return Kafka's error code for an error. Clients retry retryable codes; a full disk is a
    storage error.
    """
    match error:
        case KafkaRequestRefused():
            return error.code
        case BrokerRefused():
            return _REFUSED.get(error.kind, ErrorCode.invalid_record)
        case BoundReached() | BrokerUnavailable():
            return ErrorCode.kafka_storage_error
        case PositionOutOfRange():
            return ErrorCode.offset_out_of_range
        case TimeoutError():
            return ErrorCode.request_timed_out
        case _:
            return ErrorCode.unknown_server_error
