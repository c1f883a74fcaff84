"""What an error of ours is in Kafka's protocol: one table."""

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


class Refused(Exception):
    """A part of a request is answered with an error. ``faults``: index of a record, to why."""

    def __init__(
        self, code: ErrorCode, message: str, faults: tuple[tuple[int, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.faults = faults


def demand(code: ErrorCode, message: str) -> None:
    """Raises Refused for any code but that of success."""
    if code is not ErrorCode.none:
        raise Refused(code, message)


def code_of(error: Exception) -> ErrorCode:
    """A client tries again what is retryable there: a full disk is a storage error (rule 8)."""
    match error:
        case Refused():
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
