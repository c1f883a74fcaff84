"""The Fetch API: read records from the log as batches, and wait until there are enough."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from app.errors import BrokerError, PositionOutOfRange
from app.kafka_listener.batch_writing import EncodedBatches, write_batches
from app.kafka_listener.errors import KafkaRequestRefused, code_of
from app.kafka_listener.node import LEADER_EPOCH, KafkaNode, KafkaSession
from app.kafka_listener.rights import to_read
from app.kafka_listener.wire import UNTHROTTLED, ErrorCode, KafkaRequest, write_answer
from app.log.stored_batches import StoredRun
from app.model.message import Partition

STEP = 1 << 20  # bytes of one read, so that readers take turns
MAX_INLINE_ANSWER = (
    128 << 10
)  # bytes of a response that is encoded on the loop; larger ones take milliseconds
FULL_WITHIN = 8  # a response counts as full if less than this fraction (1/8) of its bound is free


class FetchPartition:
    """One partition of a Fetch request, and what has been read from it so far."""

    __slots__ = ("data", "error", "next", "place", "room", "size")

    def __init__(self, place: Partition, offset: int, room: int) -> None:
        self.place = place
        self.next = offset
        self.room = max(1, room)  # bytes that the client still accepts
        self.data: list[bytes] = []
        self.size = 0
        self.error: ErrorCode | None = None

    @property
    def full(self) -> bool:
        return _is_full(self.size, self.size + self.room)

    def add(self, written: EncodedBatches) -> None:
        self.data.append(written.data)
        self.size += len(written.data)
        self.room -= len(written.data)
        self.next = written.after


async def fetch(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Return records of the requested partitions, once there are ``min_bytes`` or ``max_wait`` has
    passed.

    A repeated partition is read once, so that a new record does not wake thousands of waiters.
    Fetch sessions (KIP-227) are not supported. The response has session 0, and clients then name
    all partitions each time.
    """
    payload = request.payload
    if getattr(payload, "session_id", 0):
        return _answer(node, request, (), ErrorCode.fetch_session_id_not_found)
    named = {
        (topic.topic, each.partition): each for topic in payload.topics for each in topic.partitions
    }
    wanted = [_begin_partition(node, session, topic, each) for (topic, _), each in named.items()]
    await _read_until_enough(node, session, payload, wanted)
    if sum(each.size for each in wanted) <= MAX_INLINE_ANSWER:
        return _answer(node, request, wanted)
    return await asyncio.to_thread(lambda: write_answer(request, _answer(node, request, wanted)))


async def _read_until_enough(
    node: KafkaNode, session: KafkaSession, payload: Any, wanted: Sequence[FetchPartition]
) -> None:
    loop = asyncio.get_running_loop()
    settings = node.settings
    most = min(payload.max_bytes, settings.max_answer)
    until = loop.time() + min(payload.max_wait.total_seconds(), settings.max_wait)
    start = session.turn % max(1, len(wanted))
    turns = [
        *wanted[start:],
        *wanted[:start],
    ]  # the order rotates, so that each partition gets room
    session.turn += 1
    with _watching(node, session, wanted) as stirred:
        while True:
            stirred.clear()
            await _read(node, session, turns, most)
            if _is_enough(wanted, payload.min_bytes, most):
                return
            if session.ending.is_set() or loop.time() >= until:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await stirred.wait()


async def _read(
    node: KafkaNode, session: KafkaSession, turns: Sequence[FetchPartition], most: int
) -> None:
    """Read all partitions as far as there is room. The first one with records yields at least one
    batch, whatever its size.
    """
    size = sum(each.size for each in turns)
    for each in turns:
        while each.error is None and not each.full:
            bound = min(most, size + session.unread.left(session.name))
            if _is_full(size, bound):
                break
            before = each.size
            await _read_held_step(node, session, each, bound - size, first=not size)
            if each.size == before:
                break
            size += each.size - before


async def _read_held_step(
    node: KafkaNode, session: KafkaSession, each: FetchPartition, room: int, *, first: bool
) -> None:
    """Count the room as used, then read into it, because other requests read at the same time."""
    room = max(1, min(room, each.room, STEP))
    before = each.size
    session.hold(room)
    try:
        await _read_step(node, each, room, first=first)
    finally:
        session.hold(each.size - before - room)


def _is_enough(wanted: Sequence[FetchPartition], least: int, most: int) -> bool:
    """Return True if ``least`` bytes are read, the response is full, or a partition is full or
    failed.
    """
    size = sum(each.size for each in wanted)
    return size >= least or _is_full(size, most) or any(each.error or each.full for each in wanted)


def _is_full(size: int, bound: int) -> bool:
    """Return True if little room is left. Reading more would decode a whole row for a few
    records.
    """
    return bool(size) and bound - size < bound / FULL_WITHIN


async def _read_step(node: KafkaNode, each: FetchPartition, room: int, *, first: bool) -> None:
    try:
        log = node.engine.partition(each.place)
        log.check(each.next)
        if log.next_offset == each.next:
            return
        write = partial(_write, each.next, room)
        written = await node.engine.scan(each.place, each.next, write, room)
    except PositionOutOfRange:  # also for a deleted topic; librdkafka hides an unknown topic
        each.error = each.error or ErrorCode.offset_out_of_range
        return
    except BrokerError as error:
        each.error = code_of(error)
        return
    if written.data and (first or len(written.data) <= room):
        each.add(written)
        node.counters.add("kafka_records", "fetched", by=written.records)


def _write(offset: int, room: int, runs: Iterator[StoredRun]) -> EncodedBatches:
    """Encode records in the reading thread."""
    return write_batches(runs, offset, room)


@contextmanager
def _watching(
    node: KafkaNode, session: KafkaSession, wanted: Sequence[FetchPartition]
) -> Iterator[asyncio.Event]:
    """Yield an event that is set when one of the partitions grows or waiting must end."""
    event = asyncio.Event()
    watched = [each.place for each in wanted if each.error is None]
    for place in watched:
        node.engine.watch(place, event.set)
    session.waiting.add(event)
    try:
        yield event
    finally:
        session.waiting.discard(event)
        for place in watched:
            with suppress(PositionOutOfRange):  # the topic was deleted meanwhile
                node.engine.unwatch(place, event.set)


def _begin_partition(
    node: KafkaNode, session: KafkaSession, topic: str, asked: Any
) -> FetchPartition:
    each = FetchPartition(
        Partition(topic, asked.partition), asked.fetch_offset, asked.partition_max_bytes
    )
    if to_read(session, topic) is not ErrorCode.none:
        each.error = ErrorCode.topic_authorization_failed
        return each
    try:
        log = node.engine.partition(each.place)
        check_epoch(getattr(asked, "current_leader_epoch", -1))
    except PositionOutOfRange:
        each.error = ErrorCode.unknown_topic_or_partition
    except KafkaRequestRefused as refusal:
        each.error = refusal.code
    else:
        if not log.earliest <= each.next <= log.next_offset:
            each.error = ErrorCode.offset_out_of_range
    return each


def check_epoch(epoch: int) -> None:
    """Raise RequestRefused for a leader epoch that never existed (KIP-320)."""
    if epoch > LEADER_EPOCH:
        raise KafkaRequestRefused(
            ErrorCode.unknown_leader_epoch, f"no leader has had epoch {epoch}"
        )


def _answer(
    node: KafkaNode,
    request: KafkaRequest,
    wanted: Sequence[FetchPartition],
    code: ErrorCode = ErrorCode.none,
) -> Any:
    shapes, by_topic = request.shapes, dict[str, list[Any]]()
    for each in wanted:
        by_topic.setdefault(each.place.topic, []).append(_partition(node, shapes, each))
    return shapes.FetchResponse(
        throttle_time=UNTHROTTLED,
        error_code=code,
        session_id=0,
        responses=tuple(
            shapes.FetchableTopicResponse(topic=name, partitions=tuple(partitions))
            for name, partitions in by_topic.items()
        ),
    )


def _partition(node: KafkaNode, shapes: Any, each: FetchPartition) -> Any:
    earliest = latest = -1
    if each.error is not ErrorCode.topic_authorization_failed:
        with suppress(PositionOutOfRange):
            log = node.engine.partition(each.place)
            earliest, latest = log.earliest, log.next_offset
    return shapes.PartitionData(
        partition_index=each.place.number,
        error_code=each.error or ErrorCode.none,
        high_watermark=latest,
        last_stable_offset=latest,
        log_start_offset=earliest,
        aborted_transactions=None,
        preferred_read_replica=-1,
        records=each.data[0] if len(each.data) == 1 else b"".join(each.data),
    )
