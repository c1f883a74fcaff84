"""The Produce API: append batches to the log by the same writer and the same commit groups as
events from HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from app.errors import BrokerError, PositionOutOfRange
from app.kafka_listener.batches import (
    MAX_QUICK_BYTES,
    MIN_RECORD,
    ProducedBatch,
    declared_count,
    is_compressed,
    is_quick,
    is_zstd,
    read_batch,
)
from app.kafka_listener.errors import KafkaRequestRefused, code_of
from app.kafka_listener.node import KafkaNode, KafkaSession
from app.kafka_listener.rights import attributed, not_allowed, to_write
from app.kafka_listener.room import Reservation
from app.kafka_listener.wire import ErrorCode, KafkaRequest, Malformed
from app.log.partition_append import StoredAppend
from app.model.message import Partition

MAX_MESSAGE = 1_000  # characters of an error message
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ACKS = (-1, 0, 1)
ZSTD_SINCE = 7  # from this version on, batches may be compressed with zstd (KIP-110)
MAX_THROTTLE = 3_600.0  # seconds in a response at most; the protocol has room for 24 days

_Part = tuple[Partition, bytes]
"""A partition and the batch for it."""


class ParsedPartition(msgspec.Struct, frozen=True):
    """A partition with its parsed batch, or with the reason why the batch is refused."""

    place: Partition
    batch: ProducedBatch | KafkaRequestRefused


class ProduceResult(msgspec.Struct, frozen=True):
    """The result of a Produce request for one partition. ``records`` is the number of stored
    records.
    """

    place: Partition
    result: StoredAppend | Exception
    records: int = 0


async def produce(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Append the batches, and return when each is durable. One fsync serves acks 1 and all.

    With acks 0 there is no response, and a refused batch ends the connection, as in Kafka.
    """
    payload = request.payload
    parts = _parts(payload)
    _charge(node, session, parts)
    with Reservation(session.expanded, session.name) as share:
        async with session.lane:  # keeps the order of the batches of a connection
            asked = await _read(node, session, request, parts, share)
            waiting = [(each, _begin(node, each, session.owner)) for each in asked]
        fates = await _results(waiting, payload.timeout if payload.acks else None)
    _count(node, session, fates)
    if not payload.acks:
        return _unanswered(fates)
    return _answer(node, request, fates, session.debt(node.clock.monotonic()))


def _parts(payload: Any) -> list[_Part]:
    return [
        (Partition(topic.name, data.index), data.records or b"")
        for topic in payload.topic_data
        for data in topic.partition_data
    ]


def _charge(node: KafkaNode, session: KafkaSession, parts: Iterable[_Part]) -> None:
    """Charge the records to the producer's quota before the next request of the connection is read.

    Kafka has no error for an exceeded quota. So the connection is not read until the producer is
    within its quota again.
    """
    caller = None if session.user is None else session.user.caller
    if caller is None:
        return
    most = node.settings.max_frame // MIN_RECORD  # whatever a batch header declares
    counts = [
        min(declared_count(data), most) if to_write(session, place.topic) is ErrorCode.none else 0
        for place, data in parts
    ]
    count = sum(counts)
    caller.charge(count, node.clock.monotonic(), refused=counts.count(0))
    node.counters.add("producer_events", caller.name, by=count)


async def _read(
    node: KafkaNode,
    session: KafkaSession,
    request: KafkaRequest,
    parts: Sequence[_Part],
    share: Reservation,
) -> list[ParsedPartition]:
    payload = request.payload
    if payload.acks not in ACKS:
        return _refused(payload, ErrorCode.invalid_required_acks, f"acks {payload.acks}")
    if payload.transactional_id is not None:
        return _refused(payload, *NO_TRANSACTIONS)
    if sum(len(data) for _, data in parts) <= MAX_QUICK_BYTES and all(
        is_quick(data) and not _decodes_records(node, session, place.topic) for place, data in parts
    ):
        return _read_all(node, session, parts, request.version, 0)
    compressed = sum(is_compressed(data) for _, data in parts)
    room = min(compressed * node.settings.max_batch, node.settings.max_frame)
    if room:
        await share.take(room)
    asked = await asyncio.to_thread(_read_all, node, session, parts, request.version, room)
    share.keep(sum(_expanded(each) for each in asked))
    return asked


def _decodes_records(node: KafkaNode, session: KafkaSession, topic: str) -> bool:
    """Return True if each record must be decoded, because the topic or the user has limits."""
    return node.gate.guards(topic) or (session.user is not None and session.user.limits is not None)


def _read_all(
    node: KafkaNode, session: KafkaSession, parts: Iterable[_Part], version: int, room: int
) -> list[ParsedPartition]:
    """Parse all batches. This may run in any thread.

    ``room`` is the number of bytes that the compressed batches may become together.
    """
    asked: list[ParsedPartition] = []
    for place, data in parts:
        if version < ZSTD_SINCE and is_zstd(data):
            why = f"batches in zstd need version {ZSTD_SINCE} of Produce"
            refusal = KafkaRequestRefused(ErrorCode.unsupported_compression_type, why)
            asked.append(ParsedPartition(place, refusal))
        else:
            asked.append(_read_one(node, session, place, data, room))
        room -= _expanded(asked[-1])
    return asked


def _read_one(
    node: KafkaNode, session: KafkaSession, place: Partition, data: bytes, room: int
) -> ParsedPartition:
    """Parse one batch. A batch for an unknown partition, or without the right to write, is not
    read.
    """
    code = to_write(session, place.topic)
    if code is not ErrorCode.none:
        return ParsedPartition(
            place, KafkaRequestRefused(code, f"writing to {place.topic} is not allowed")
        )
    try:
        node.engine.partition(place)
        batch = read_batch(data, node.settings.max_batch, room)
    except PositionOutOfRange as error:
        return ParsedPartition(
            place, KafkaRequestRefused(ErrorCode.unknown_topic_or_partition, str(error))
        )
    except KafkaRequestRefused as refusal:
        return ParsedPartition(place, refusal)
    faults = node.gate.refusals(place.topic, batch.records)
    if faults:
        return ParsedPartition(
            place,
            _refuse_records(f"not a CloudEvent, and {place.topic} accepts nothing else", faults),
        )
    limits = None if session.user is None else session.user.limits
    faults = {} if limits is None else not_allowed(limits, batch.records)
    return ParsedPartition(
        place, _refuse_records("not allowed", faults) if faults else attributed(session, batch)
    )


def _expanded(asked: ParsedPartition) -> int:
    return 0 if isinstance(asked.batch, KafkaRequestRefused) else asked.batch.expanded


def _refuse_records(what: str, faults: Mapping[int, str]) -> KafkaRequestRefused:
    first = next(iter(faults.values()))
    return KafkaRequestRefused(
        ErrorCode.invalid_record,
        f"{what}: {first}",
        tuple(faults.items()),
    )


def _refused(payload: Any, code: ErrorCode, why: str) -> list[ParsedPartition]:
    return [
        ParsedPartition(Partition(topic.name, data.index), KafkaRequestRefused(code, why))
        for topic in payload.topic_data
        for data in topic.partition_data
    ]


def _begin(
    node: KafkaNode, asked: ParsedPartition, owner: str
) -> asyncio.Future[StoredAppend] | Exception:
    if isinstance(asked.batch, KafkaRequestRefused):
        return asked.batch
    return node.engine.append_to(asked.place, asked.batch.records, asked.batch.numbers, owner)


async def _results(
    waiting: list[tuple[ParsedPartition, asyncio.Future[StoredAppend] | Exception]],
    limit: timedelta | None,
) -> list[ProduceResult]:
    """Wait for the batches and return their results. A batch that is not stored in time is
    cancelled, unless it is being stored.

    ``limit`` is None if no response is needed.
    """
    futures = [each for _, each in waiting if isinstance(each, asyncio.Future)]
    seconds = None if limit is None else max(0.001, limit.total_seconds())
    if futures:
        await asyncio.wait(futures, timeout=seconds)
    return [_result(asked, each) for asked, each in waiting]


def _result(
    asked: ParsedPartition, each: asyncio.Future[StoredAppend] | Exception
) -> ProduceResult:
    if isinstance(each, Exception):
        return ProduceResult(asked.place, each)
    if not each.done():
        each.cancel()
        return ProduceResult(
            asked.place, TimeoutError("not stored within the time-out of the producer")
        )
    error = each.exception()
    if error is not None:
        known = error if isinstance(error, Exception) else RuntimeError(str(error))
        return ProduceResult(asked.place, known)
    records = 0 if isinstance(asked.batch, KafkaRequestRefused) else len(asked.batch.records)
    return ProduceResult(asked.place, each.result(), records)


def _unanswered(fates: Iterable[ProduceResult]) -> None:
    for fate in fates:
        if isinstance(fate.result, KafkaRequestRefused):
            raise Malformed(f"a batch for {fate.place} with acks 0: {fate.result}")


def _count(node: KafkaNode, session: KafkaSession, fates: Iterable[ProduceResult]) -> None:
    caller = None if session.user is None else session.user.caller
    for fate in fates:
        if isinstance(fate.result, StoredAppend):
            if fate.result.time_ms is not None:
                node.counters.add("kafka_records", "produced", by=fate.records)
            continue
        code = code_of(fate.result).name
        node.counters.add("kafka_refused_batches", code)
        if caller is not None and isinstance(fate.result, KafkaRequestRefused):
            caller.tally.refused += 1
            node.counters.add("producer_refusals", caller.name, code)


def _answer(
    node: KafkaNode, request: KafkaRequest, fates: list[ProduceResult], throttled: float
) -> Any:
    """Return the Produce response. ``throttled`` is the seconds until the producer is within its
    quota, which the response may clip.
    """
    shapes, by_topic = request.shapes, dict[str, list[Any]]()
    for fate in fates:
        by_topic.setdefault(fate.place.topic, []).append(_partition(node, shapes, fate))
    return shapes.ProduceResponse(
        responses=tuple(
            shapes.TopicProduceResponse(name=name, partition_responses=tuple(partitions))
            for name, partitions in by_topic.items()
        ),
        throttle_time=timedelta(seconds=min(throttled, MAX_THROTTLE)),
    )


def _partition(node: KafkaNode, shapes: Any, fate: ProduceResult) -> Any:
    result, faults, message = fate.result, (), None
    if isinstance(result, StoredAppend):
        code, base, start = ErrorCode.none, result.base, -1
        time = None if result.time_ms is None else _EPOCH + timedelta(milliseconds=result.time_ms)
        with suppress(PositionOutOfRange):  # deleted meanwhile
            start = node.engine.partition(fate.place).earliest
    else:
        code, base, time, start = code_of(result), -1, None, -1
        if isinstance(result, BrokerError | KafkaRequestRefused | TimeoutError):
            message = str(result)[:MAX_MESSAGE]
        if isinstance(result, KafkaRequestRefused):
            faults = tuple(
                shapes.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=why)
                for index, why in result.faults
            )
    return shapes.PartitionProduceResponse(
        index=fate.place.number,
        error_code=code,
        base_offset=base,
        log_append_time=time,
        log_start_offset=start,
        record_errors=faults,
        error_message=message,
    )


NO_TRANSACTIONS = (
    ErrorCode.transactional_id_authorization_failed,
    "transactions are not supported: leave the transactional id out",
)
