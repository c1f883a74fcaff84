"""Fetch: records out of the log, as batches; with a wait until there are enough of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from app.errors import BrokerError, PositionOutOfRange
from app.kafka_listener.batches import Written, write_batches
from app.kafka_listener.errors import Refused, code_of
from app.kafka_listener.node import LEADER_EPOCH, Node, Session
from app.kafka_listener.rights import to_read
from app.kafka_listener.wire import UNTHROTTLED, ErrorCode, Request, write_answer
from app.log.stored_batches import Run
from app.model.message import Partition

STEP = 1 << 20  # bytes that are read and written at once, so that readers take turns
AT_ONCE = 128 << 10  # bytes of an answer that the loop writes itself; megabytes take milliseconds
CRUMB = 8  # an answer, or a part of it, that lacks less than such a part of its bound is full


class Wanted:
    """One partition of a Fetch, and what has been read of it so far."""

    __slots__ = ("data", "error", "next", "place", "room", "size")

    def __init__(self, place: Partition, offset: int, room: int) -> None:
        self.place = place
        self.next = offset
        self.room = max(1, room)  # bytes that the client still takes of it
        self.data: list[bytes] = []
        self.size = 0
        self.error: ErrorCode | None = None

    @property
    def full(self) -> bool:
        return _is_full(self.size, self.size + self.room)

    def add(self, written: Written) -> None:
        self.data.append(written.data)
        self.size += len(written.data)
        self.room -= len(written.data)
        self.next = written.after


async def fetch(node: Node, session: Session, request: Request) -> Any:
    """Waits until there are ``min_bytes``, at most ``max_wait``. A partition that is named several times is read once,
    or each record that comes would wake thousands. Sessions (KIP-227) are not kept: the answer says session 0, and
    clients then name all partitions each time."""
    payload = request.payload
    if getattr(payload, "session_id", 0):
        return _answer(node, request, (), ErrorCode.fetch_session_id_not_found)
    named = {
        (topic.topic, each.partition): each for topic in payload.topics for each in topic.partitions
    }
    wanted = [_wanted(node, session, topic, each) for (topic, _), each in named.items()]
    await _gather(node, session, payload, wanted)
    if sum(each.size for each in wanted) <= AT_ONCE:
        return _answer(node, request, wanted)
    return await asyncio.to_thread(lambda: write_answer(request, _answer(node, request, wanted)))


async def _gather(node: Node, session: Session, payload: Any, wanted: Sequence[Wanted]) -> None:
    loop = asyncio.get_running_loop()
    settings = node.settings
    most = min(payload.max_bytes, settings.max_answer)
    until = loop.time() + min(payload.max_wait.total_seconds(), settings.max_wait)
    start = session.turn % max(1, len(wanted))
    turns = [*wanted[start:], *wanted[:start]]  # a partition without room comes first the next time
    session.turn += 1
    with _stirred(node, session, wanted) as stirred:
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


async def _read(node: Node, session: Session, turns: Sequence[Wanted], most: int) -> None:
    """What there is, as far as there is room; of the first that has any, one batch whatever its size."""
    size = sum(each.size for each in turns)
    for each in turns:
        while each.error is None and not each.full:
            bound = min(most, size + session.unread.left(session.name))
            if _is_full(size, bound):
                break
            before = each.size
            await _held_step(node, session, each, bound - size, first=not size)
            if each.size == before:
                break
            size += each.size - before


async def _held_step(node: Node, session: Session, each: Wanted, room: int, *, first: bool) -> None:
    """The room is held before it is read into: others read at the same time."""
    room = max(1, min(room, each.room, STEP))
    before = each.size
    session.hold(room)
    try:
        await _step(node, each, room, first=first)
    finally:
        session.hold(each.size - before - room)


def _is_enough(wanted: Sequence[Wanted], least: int, most: int) -> bool:
    """Or all that there will be."""
    size = sum(each.size for each in wanted)
    return size >= least or _is_full(size, most) or any(each.error or each.full for each in wanted)


def _is_full(size: int, bound: int) -> bool:
    """More of it would have a row decoded for a few records."""
    return bool(size) and bound - size < bound / CRUMB


async def _step(node: Node, each: Wanted, room: int, *, first: bool) -> None:
    try:
        log = node.engine.partition(each.place)
        log.check(each.next)
        if log.next_offset == each.next:
            return
        write = partial(_write, each.next, room)
        written = await node.engine.scan(each.place, each.next, write, room)
    except (
        PositionOutOfRange
    ):  # also of a topic that was deleted: librdkafka tells its user nothing of an unknown one
        each.error = each.error or ErrorCode.offset_out_of_range
        return
    except BrokerError as error:
        each.error = code_of(error)
        return
    if written.data and (first or len(written.data) <= room):
        each.add(written)
        node.counters.add("kafka_records", "fetched", by=written.records)


def _write(offset: int, room: int, runs: Iterator[Run]) -> Written:
    """In the reading thread."""
    return write_batches(runs, offset, room)


@contextmanager
def _stirred(node: Node, session: Session, wanted: Sequence[Wanted]) -> Iterator[asyncio.Event]:
    """Set when one of the partitions has grown, or nobody may wait any longer."""
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
            with suppress(PositionOutOfRange):  # deleted meanwhile
                node.engine.unwatch(place, event.set)


def _wanted(node: Node, session: Session, topic: str, asked: Any) -> Wanted:
    each = Wanted(Partition(topic, asked.partition), asked.fetch_offset, asked.partition_max_bytes)
    if to_read(session, topic) is not ErrorCode.none:
        each.error = ErrorCode.topic_authorization_failed
        return each
    try:
        log = node.engine.partition(each.place)
        check_epoch(getattr(asked, "current_leader_epoch", -1))
    except PositionOutOfRange:
        each.error = ErrorCode.unknown_topic_or_partition
    except Refused as refusal:
        each.error = refusal.code
    else:
        if not log.earliest <= each.next <= log.next_offset:
            each.error = ErrorCode.offset_out_of_range
    return each


def check_epoch(epoch: int) -> None:
    """Raises Refused for a leader that there never was (KIP-320)."""
    if epoch > LEADER_EPOCH:
        raise Refused(ErrorCode.unknown_leader_epoch, f"no leader has had epoch {epoch}")


def _answer(
    node: Node, request: Request, wanted: Sequence[Wanted], code: ErrorCode = ErrorCode.none
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


def _partition(node: Node, shapes: Any, each: Wanted) -> Any:
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
