"""Produce: batches into the log, by the same writer and the same commit groups as what comes over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from app.errors import BrokerError, PositionOutOfRange
from app.kafka_listener.batches import (
    QUICK,
    RECORD_AT_LEAST,
    Arrived,
    declared,
    is_compressed,
    is_quick,
    is_zstd,
    read_batch,
)
from app.kafka_listener.errors import Refused, code_of
from app.kafka_listener.node import Node, Session
from app.kafka_listener.rights import attributed, not_allowed, to_write
from app.kafka_listener.room import Share
from app.kafka_listener.wire import ErrorCode, Malformed, Request
from app.log.partition_append import Stored
from app.model.message import Partition

CLIPPED = 1_000  # characters of a message
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ACKS = (-1, 0, 1)
ZSTD_SINCE = 7  # the version since which batches may be compressed with zstd (KIP-110)
THROTTLED = 3_600.0  # seconds that an answer tells at most: the protocol has room for 24 days

_Part = tuple[Partition, bytes]
"""A partition, and the batch for it."""


class Asked(msgspec.Struct, frozen=True):
    """What one partition is asked to take, or why it does not."""

    place: Partition
    batch: Arrived | Refused


class Fate(msgspec.Struct, frozen=True):
    place: Partition
    result: Stored | Exception
    records: int = 0


async def produce(node: Node, session: Session, request: Request) -> Any:
    """Answers when every batch is durable, for acks 1 as for all: one fsync serves both. With acks 0
    there is no answer, but the request is in work for as long; what was refused ends the connection, as
    Kafka does it."""
    payload = request.payload
    parts = _parts(payload)
    _charge(node, session, parts)
    with Share(session.expanded, session.name) as share:
        async with session.lane:  # so that batches of one connection are stored in their order
            asked = await _read(node, session, request, parts, share)
            waiting = [(each, _begin(node, each, session.owner)) for each in asked]
        fates = await _fates(waiting, payload.timeout if payload.acks else None)
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


def _charge(node: Node, session: Session, parts: Iterable[_Part]) -> None:
    """Before the connection's next request is read: Kafka has no refusal for a producer beyond its quota, so
    it is read from no more until its debt is paid."""
    caller = None if session.user is None else session.user.caller
    if caller is None:
        return
    most = node.settings.max_frame // RECORD_AT_LEAST  # whatever a head says
    counts = [
        min(declared(data), most) if to_write(session, place.topic) is ErrorCode.none else 0
        for place, data in parts
    ]
    count = sum(counts)
    caller.charge(count, node.clock.monotonic(), refused=counts.count(0))
    node.counters.add("producer_events", caller.name, by=count)


async def _read(
    node: Node, session: Session, request: Request, parts: Sequence[_Part], share: Share
) -> list[Asked]:
    payload = request.payload
    if payload.acks not in ACKS:
        return _refused(payload, ErrorCode.invalid_required_acks, f"acks {payload.acks}")
    if payload.transactional_id is not None:
        return _refused(payload, *NO_TRANSACTIONS)
    if sum(len(data) for _, data in parts) <= QUICK and all(
        is_quick(data) and not _looks(node, session, place.topic) for place, data in parts
    ):
        return _read_all(node, session, parts, request.version, 0)
    compressed = sum(is_compressed(data) for _, data in parts)
    room = min(compressed * node.settings.max_batch, node.settings.max_frame)
    if room:
        await share.take(room)
    asked = await asyncio.to_thread(_read_all, node, session, parts, request.version, room)
    share.keep(sum(_expanded(each) for each in asked))
    return asked


def _looks(node: Node, session: Session, topic: str) -> bool:
    """Whether each record is decoded."""
    return node.gate.guards(topic) or (session.user is not None and session.user.limits is not None)


def _read_all(
    node: Node, session: Session, parts: Iterable[_Part], version: int, room: int
) -> list[Asked]:
    """Any thread. ``room``: bytes that the compressed batches may become together."""
    asked: list[Asked] = []
    for place, data in parts:
        if version < ZSTD_SINCE and is_zstd(data):
            why = f"batches in zstd need version {ZSTD_SINCE} of Produce"
            refusal = Refused(ErrorCode.unsupported_compression_type, why)
            asked.append(Asked(place, refusal))
        else:
            asked.append(_read_one(node, session, place, data, room))
        room -= _expanded(asked[-1])
    return asked


def _read_one(node: Node, session: Session, place: Partition, data: bytes, room: int) -> Asked:
    """What is for no partition, or not allowed, is not looked into."""
    code = to_write(session, place.topic)
    if code is not ErrorCode.none:
        return Asked(place, Refused(code, f"writing to {place.topic} is not allowed"))
    try:
        node.engine.partition(place)
        batch = read_batch(data, node.settings.max_batch, room)
    except PositionOutOfRange as error:
        return Asked(place, Refused(ErrorCode.unknown_topic_or_partition, str(error)))
    except Refused as refusal:
        return Asked(place, refusal)
    faults = node.gate.refusals(place.topic, batch.records)
    if faults:
        return Asked(
            place, _barred(f"not a CloudEvent, and {place.topic} takes nothing else", faults)
        )
    limits = None if session.user is None else session.user.limits
    faults = {} if limits is None else not_allowed(limits, batch.records)
    return Asked(place, _barred("not allowed", faults) if faults else attributed(session, batch))


def _expanded(asked: Asked) -> int:
    return 0 if isinstance(asked.batch, Refused) else asked.batch.expanded


def _barred(what: str, faults: Mapping[int, str]) -> Refused:
    first = next(iter(faults.values()))
    return Refused(
        ErrorCode.invalid_record,
        f"{what}: {first}",
        tuple(faults.items()),
    )


def _refused(payload: Any, code: ErrorCode, why: str) -> list[Asked]:
    return [
        Asked(Partition(topic.name, data.index), Refused(code, why))
        for topic in payload.topic_data
        for data in topic.partition_data
    ]


def _begin(node: Node, asked: Asked, owner: str) -> asyncio.Future[Stored] | Exception:
    if isinstance(asked.batch, Refused):
        return asked.batch
    return node.engine.append_to(asked.place, asked.batch.records, asked.batch.numbers, owner)


async def _fates(
    waiting: list[tuple[Asked, asyncio.Future[Stored] | Exception]], patience: timedelta | None
) -> list[Fate]:
    """What is not stored in the producer's own time is given up, as far as it is not being stored.
    ``patience``: None where nobody waits for an answer."""
    futures = [each for _, each in waiting if isinstance(each, asyncio.Future)]
    seconds = None if patience is None else max(0.001, patience.total_seconds())
    if futures:
        await asyncio.wait(futures, timeout=seconds)
    return [_fate(asked, each) for asked, each in waiting]


def _fate(asked: Asked, each: asyncio.Future[Stored] | Exception) -> Fate:
    if isinstance(each, Exception):
        return Fate(asked.place, each)
    if not each.done():
        each.cancel()
        return Fate(asked.place, TimeoutError("not stored in the time that the producer gave it"))
    error = each.exception()
    if error is not None:
        known = error if isinstance(error, Exception) else RuntimeError(str(error))
        return Fate(asked.place, known)
    records = 0 if isinstance(asked.batch, Refused) else len(asked.batch.records)
    return Fate(asked.place, each.result(), records)


def _unanswered(fates: Iterable[Fate]) -> None:
    for fate in fates:
        if isinstance(fate.result, Refused):
            raise Malformed(f"a batch for {fate.place} with acks 0: {fate.result}")


def _count(node: Node, session: Session, fates: Iterable[Fate]) -> None:
    caller = None if session.user is None else session.user.caller
    for fate in fates:
        if isinstance(fate.result, Stored):
            if fate.result.time_ms is not None:
                node.counters.add("kafka_records", "produced", by=fate.records)
            continue
        code = code_of(fate.result).name
        node.counters.add("kafka_refused_batches", code)
        if caller is not None and isinstance(fate.result, Refused):
            caller.tally.refused += 1
            node.counters.add("producer_refusals", caller.name, code)


def _answer(node: Node, request: Request, fates: list[Fate], throttled: float) -> Any:
    """``throttled``: seconds until the producer is read from again, which may be more than is told."""
    shapes, by_topic = request.shapes, dict[str, list[Any]]()
    for fate in fates:
        by_topic.setdefault(fate.place.topic, []).append(_partition(node, shapes, fate))
    return shapes.ProduceResponse(
        responses=tuple(
            shapes.TopicProduceResponse(name=name, partition_responses=tuple(partitions))
            for name, partitions in by_topic.items()
        ),
        throttle_time=timedelta(seconds=min(throttled, THROTTLED)),
    )


def _partition(node: Node, shapes: Any, fate: Fate) -> Any:
    result, faults, message = fate.result, (), None
    if isinstance(result, Stored):
        code, base, start = ErrorCode.none, result.base, -1
        time = None if result.time_ms is None else _EPOCH + timedelta(milliseconds=result.time_ms)
        with suppress(PositionOutOfRange):  # deleted meanwhile
            start = node.engine.partition(fate.place).earliest
    else:
        code, base, time, start = code_of(result), -1, None, -1
        if isinstance(result, BrokerError | Refused | TimeoutError):
            message = str(result)[:CLIPPED]
        if isinstance(result, Refused):
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
    "there are no transactions here: leave the transactional id out",
)
